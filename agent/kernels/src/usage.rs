//! What each kernel takes of a multiprocessor, read from the assembler's log.

/// Registers and memory of one kernel.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    /// The kernel.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of static shared memory of a block.
    pub shared_bytes: u32,
    /// Bytes of a thread's stack in memory.
    pub stack_bytes: u32,
    /// Bytes of registers that are put into memory.
    pub spill_store_bytes: u32,
    /// Bytes of registers that are fetched from memory.
    pub spill_load_bytes: u32,
}

impl Usage {
    /// Bytes that go to memory because registers do not suffice.
    pub fn spill_bytes(&self) -> u32 {
        self.spill_store_bytes + self.spill_load_bytes
    }
}

/// The kernels of a log, by name. It has three lines a kernel: its name, stack and spills, registers and shared memory.
pub fn usages(log: &str) -> Vec<Usage> {
    let mut found: Vec<Usage> = Vec::new();
    for line in log.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            found.push(Usage { kernel, ..Usage::default() });
            continue;
        }
        let Some(last) = found.last_mut() else { continue };
        for (words, place) in [
            (" bytes stack frame", &mut last.stack_bytes),
            (" bytes spill stores", &mut last.spill_store_bytes),
            (" bytes spill loads", &mut last.spill_load_bytes),
            (" registers", &mut last.registers),
            (" bytes smem", &mut last.shared_bytes),
        ] {
            if let Some(number) = number_before(line, words) {
                *place = number;
            }
        }
    }
    // A name without registers is a line of another kind.
    found.retain(|usage| usage.registers > 0);
    found.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    found
}

fn number_before(line: &str, words: &str) -> Option<u32> {
    let before = &line[..line.find(words)?];
    let start = before.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    before[start..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As NVRTC 13.0.88 prints it.
    #[test]
    fn a_log_names_registers_and_memory_of_each_kernel() {
        let log = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'gqa_bf16_256_256' for 'sm_120'\n\
            ptxas info    : Function properties for gqa_bf16_256_256\n    \
            32 bytes stack frame, 64 bytes spill stores, 40 bytes spill loads\n\
            ptxas info    : Used 255 registers, used 1 barriers, 32 bytes cumulative stack size, 41216 bytes smem\n\
            ptxas info    : Compiling entry function 'combine' for 'sm_120'\n\
            ptxas info    : Function properties for combine\n    \
            0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Used 32 registers, used 0 barriers\n";
        let combine = Usage { kernel: "combine".to_owned(), registers: 32, ..Usage::default() };
        let gqa = Usage {
            kernel: "gqa_bf16_256_256".to_owned(),
            registers: 255,
            shared_bytes: 41216,
            stack_bytes: 32,
            spill_store_bytes: 64,
            spill_load_bytes: 40,
        };
        assert_eq!(usages(log), [combine, gqa.clone()]);
        assert_eq!(gqa.spill_bytes(), 104);
        assert!(usages("nothing of the kind").is_empty());
    }
}
