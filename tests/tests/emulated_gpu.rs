//! The agent with libraries in place of NVIDIA's: its own code runs as on a GPU, kernels run on the CPU, and every way of
//! having no usable GPU is one line.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

use std::path::Path;
use std::process::Command;

use kvscope_tests::command_line::command_at;
use serde_json::Value;

/// An agent on a machine whose GPU is emulated; `wish` is what the driver is to do (`shim/driver.cpp`).
fn emulated(home: &Path, wish: &str) -> Command {
    let mut command = command_at(home);
    let nvidia = kvscope_emulation::nvidia();
    command.env("LD_LIBRARY_PATH", nvidia).env("KVSCOPE_NVRTC", nvidia).env("KVSCOPE_EMULATION", wish);
    command
}

struct Ended {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

fn end(command: &mut Command, arguments: &[&str]) -> Ended {
    let output = command.args(arguments).output().unwrap();
    Ended {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs small cases on the emulated GPU and gives the run, which must be printed whatever came.
fn bench(home: &Path, wish: &str, forms: &str, more: &[&str]) -> (Ended, Value) {
    let arguments = ["bench", "run", "--backend", "cuda", "--budget", "20s", "--json", "--forms", forms];
    let ended = end(&mut emulated(home, wish), &[&arguments, more].concat());
    let run = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("no run: {}", ended.stderr));
    (ended, run)
}

fn cases(run: &Value) -> &[Value] {
    run["cases"].as_array().unwrap()
}

fn status(case: &Value) -> &str {
    case["status"].as_str().unwrap()
}

#[test]
fn a_run_checks_every_result_and_says_everywhere_that_it_is_emulated() {
    let home = tempfile::tempdir().unwrap();
    let (ended, run) = bench(home.path(), "", "gqa,mla,csw,gdn", &["--lengths", "64"]);
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    assert_eq!(run["backend"], "cuda-emulated");
    assert_eq!(run["machine"]["device"]["emulated"], true);
    assert_eq!(run["machine"]["device"]["name"], "Emulated GPU");
    assert_eq!(run["calibration"], Value::Null, "ceilings of an emulation are none");
    assert_eq!(cases(&run).len(), 4);
    for case in cases(&run) {
        assert!(status(case).starts_with("emulated: "), "{case}");
        assert_eq!(case["correct"], true, "{case}");
        assert_eq!(
            (&case["measured"], &case["predicted"]["seconds"]),
            (&Value::Null, &Value::Null),
            "{case}"
        );
        let warnings = case["warnings"].as_array().unwrap();
        let disagree = |warning: &Value| warning.as_str().unwrap().contains("the kernel's layout needs");
        assert!(!warnings.iter().any(disagree), "sizing and the kernel's layout differ: {case}");
    }
    let verdicts = run["verdicts"].as_array().unwrap();
    assert!(
        verdicts.iter().all(|verdict| verdict["points"] == 0),
        "nothing was measured that could be judged"
    );

    // The stored file and the table say it too.
    let name = run["run"].as_str().unwrap();
    let shown = end(&mut emulated(home.path(), ""), &["bench", "show", name]);
    assert!(
        shown.stdout.contains("emulated: kernels were checked, nothing was measured"),
        "{}",
        shown.stdout
    );
    let file = std::fs::read_to_string(home.path().join("runs").join(format!("{name}.jsonl"))).unwrap();
    assert!(!file.contains("read_bytes_per_second"), "an emulated ceiling is stored with the run");

    // What was compiled is kept: another process needs no compiler.
    let mut without = emulated(home.path(), "");
    without.env("KVSCOPE_NVRTC", home.path());
    let arguments = [
        "bench",
        "run",
        "--backend",
        "cuda",
        "--budget",
        "20s",
        "--json",
        "--forms",
        "gdn",
        "--lengths",
        "64",
    ];
    let ended = end(&mut without, &arguments);
    let run: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(run["machine"]["device"]["kernels"], "compiled before for sm_90a", "{}", ended.stderr);
}

/// The management library's figures, matched by UUID; what it does not know is null.
#[test]
fn a_run_tells_the_device_before_and_after() {
    let home = tempfile::tempdir().unwrap();
    let (_, run) = bench(home.path(), "", "gdn", &["--lengths", "64"]);
    let device = &run["machine"]["device"];
    assert_eq!(device["uuid"], "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    assert_eq!(device["driver_version"], "580.0-emulated");
    for moment in ["state_before", "state_after"] {
        let state = &device[moment];
        assert_eq!(state["sm_clock_hertz"], 1.755e9, "{state}");
        assert_eq!(state["power_watts"], 119.5, "{state}");
        assert_eq!(state["held_back_by"], serde_json::json!(["power cap"]), "{state}");
        assert_eq!((&state["pcie_generation"], &state["pcie_width"]), (&5.into(), &Value::Null), "{state}");
    }
}

#[test]
fn a_wrong_result_is_shown_as_failed_and_never_as_a_speed() {
    let home = tempfile::tempdir().unwrap();
    let (ended, run) = bench(home.path(), "skip=combine", "gqa,gdn", &["--lengths", "64"]);
    assert_eq!(ended.status, Some(1));
    let [wrong, right] = cases(&run) else { panic!("two cases were asked for") };
    assert_eq!((status(wrong), &wrong["correct"]), ("failed: wrong result", &false.into()));
    assert_eq!(wrong["measured"], Value::Null);
    assert_eq!(right["correct"], true, "{right}");
    assert!(ended.stderr.contains("failed: wrong result"), "{}", ended.stderr);
}

#[test]
fn a_case_that_does_not_fit_is_refused_with_what_does_and_the_rest_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let (ended, run) = bench(home.path(), "memory=16000000", "mla,gdn", &["--lengths", "64,64Ki"]);
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let [small, large, ..] = cases(&run) else { panic!("four cases were asked for") };
    assert!(status(small).starts_with("emulated: "), "{small}");
    assert!(status(large).starts_with("skipped: one layer is larger than"), "{large}");
    assert!(status(large).contains("the largest context that fits is"), "{large}");
    assert!(cases(&run)[2..].iter().all(|case| case["correct"] == true), "{run}");
}

#[test]
fn a_device_that_is_lost_ends_the_run_with_what_was_done_kept() {
    let home = tempfile::tempdir().unwrap();
    for (wish, why) in [
        ("lost-at=kda_bf16_128:5", "failed: the device was lost: the CUDA driver could not"),
        ("hang-at=kda_bf16_128:5", "failed: the device was lost: a kernel did not end within 1 s"),
    ] {
        let mut command = emulated(home.path(), wish);
        command.env("KVSCOPE_GPU_LIMIT", "1");
        let arguments = ["bench", "run", "--backend", "cuda", "--budget", "15s", "--json"];
        let forms = ["--forms", "gdn,kda,mamba2,gqa", "--lengths", "64"];
        let ended = end(&mut command, &[&arguments[..], &forms].concat());
        let run: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
        assert_eq!(ended.status, Some(1), "{}", ended.stderr);
        let lost = cases(&run).iter().filter(|case| status(case).contains(why)).count();
        assert_eq!(lost, 1, "one case names the loss: {run}");
        assert_eq!(cases(&run)[0]["correct"], true, "what was done before is kept: {run}");
        let others = cases(&run).iter().filter(|case| !status(case).contains(why));
        let kept = |case: &&Value| {
            status(case).starts_with("emulated: ") || status(case).starts_with("partial: the device was lost")
        };
        assert_eq!(others.clone().filter(kept).count(), cases(&run).len() - 1, "{run}");
    }
}

#[test]
fn every_kernel_agrees_with_the_reference() {
    let home = tempfile::tempdir().unwrap();
    let ended = end(&mut emulated(home.path(), ""), &["kernels", "selftest"]);
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("emulated, "), "{}", ended.stderr);
    assert!(!ended.stdout.contains("wrong"), "{}", ended.stdout);
    // Every kernel of the sources ran.
    let ran = |kernel: &str| {
        ended.stdout.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == kernel)
    };
    let missing: Vec<&str> =
        kvscope_emulation::KERNELS.split_whitespace().filter(|kernel| !ran(kernel)).collect();
    assert!(missing.is_empty(), "no shape runs {missing:?}");

    let ended =
        end(&mut emulated(home.path(), "skip=kda_bf16_128"), &["kernels", "selftest", "--only", "kda"]);
    assert_eq!(ended.status, Some(1));
    let wrong: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("wrong")).collect();
    assert!(wrong.len() == 1 && wrong[0].contains("kda, rows of 128 in bf16"), "{wrong:?}");
    assert!(ended.stdout.lines().all(|line| line.contains("kda")), "{}", ended.stdout);

    let ended = end(&mut emulated(home.path(), ""), &["kernels", "selftest", "--only", "no such form"]);
    assert_eq!(ended.status, Some(2));
    assert!(ended.stderr.contains("no line of the selftest contains `no such form`"), "{}", ended.stderr);
}

#[test]
fn machines_without_a_usable_gpu_get_one_line_and_the_cpu_still_works() {
    let home = tempfile::tempdir().unwrap();
    let line = |command: &mut Command| {
        let ended = end(command, &["bench", "run", "--backend", "cuda", "--forms", "gdn"]);
        assert_eq!(ended.status, Some(1), "{}", ended.stderr);
        let errors: Vec<&str> = ended.stderr.lines().collect();
        assert_eq!(errors.len(), 1, "{}", ended.stderr);
        errors[0].to_owned()
    };
    // No library at all, and one that lacks functions: NVRTC's, under the driver's name.
    let stub = tempfile::tempdir().unwrap();
    assert!(line(&mut command_at(home.path())).contains("no CUDA driver here"));
    std::fs::copy(kvscope_emulation::nvidia().join("libnvrtc.so.13"), stub.path().join("libcuda.so.1"))
        .unwrap();
    let mut command = command_at(home.path());
    assert!(line(command.env("LD_LIBRARY_PATH", stub.path())).contains("a stub of a container image"));
    for (wish, words) in [("no-device", "error 100, no device"), ("old", "the CUDA driver 11.8 is too old")] {
        assert!(line(&mut emulated(home.path(), wish)).contains(words), "{wish}");
        let doctor = end(&mut emulated(home.path(), wish), &["doctor"]);
        assert!(doctor.status == Some(0) && doctor.stdout.contains(words), "{}", doctor.stdout);
    }
    let arguments = ["bench", "run", "--forms", "shortconv", "--lengths", "64", "--budget", "5s", "--json"];
    let ended = end(&mut emulated(home.path(), "no-device"), &arguments);
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);

    let doctor = end(&mut emulated(home.path(), ""), &["doctor"]);
    assert!(
        doctor.stdout.contains("emulated, CUDA 12.8, 1 devices; device 0 is measured"),
        "{}",
        doctor.stdout
    );
    assert!(doctor.stdout.contains("driver 580.0-emulated"), "{}", doctor.stdout);
}
