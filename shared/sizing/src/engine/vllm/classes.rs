//! Model classes that a version of vLLM does not have: not any more, or not yet.

use super::Setup;
use crate::engine::Engine;
use crate::engine::name::shown;
use crate::sorted_lines::has_line;
use crate::warning::Warning;

/// Classes by a version, their names apart by spaces.
type ByVersion = [(&'static [u32], &'static str)];

/// One class a line, sorted: those of any release read (0.9.2, 0.11 to 0.20 and 0.22 to 0.33, `models/registry.py`).
const OF_ANY_RELEASE: &str = include_str!("known_classes.txt");

/// Classes that are gone, by the last version that had them (vLLM 0.33, `_PREVIOUSLY_SUPPORTED_MODELS` of `models/registry.py`;
/// where that of a later release still has them, it counts).
const GONE: &ByVersion = &[
    (&[0, 9], "Phi3SmallForCausalLM"),
    (
        &[0, 10],
        "DonutForConditionalGeneration MllamaForConditionalGeneration MotifForCausalLM Phi4FlashForCausalLM",
    ),
    (&[0, 12], "Phi4MultimodalForCausalLM"),
    (&[0, 22], "JAISLMHeadModel"),
    (
        &[0, 23],
        "BambaForCausalLM Dots1ForCausalLM InternLM2VEForCausalLM InternLMForCausalLM MiniMaxForCausalLM \
         MiniMaxM1ForCausalLM MiniMaxText01ForCausalLM MiniMaxVL01ForConditionalGeneration QWenLMHeadModel \
         QwenVLForConditionalGeneration Tarsier2ForConditionalGeneration XverseForCausalLM",
    ),
    (
        &[0, 24],
        "AquilaForCausalLM AquilaModel AyaVisionForConditionalGeneration BaiChuanForCausalLM BaichuanForCausalLM \
         Grok1ForCausalLM Grok1ModelForCausalLM MantisForConditionalGeneration MusicFlamingoForConditionalGeneration \
         TarsierForConditionalGeneration",
    ),
    (&[0, 25], "FuyuForCausalLM PersimmonForCausalLM TeleChatForCausalLM"),
    (&[0, 26], "OuroForCausalLM Plamo2ForCausalLM"),
    (
        &[0, 28],
        "ArcticForCausalLM ChameleonForConditionalGeneration Cheers CheersForConditionalGeneration \
         Fairseq2LlamaForCausalLM FireRedLIDForConditionalGeneration GritLM HCXVisionForCausalLM MPTForCausalLM \
         MptForCausalLM RWForCausalLM StableLMEpochForCausalLM",
    ),
];

/// Classes of decoders that came later than 0.11, by the last version read that has none of their own (`models/registry.py` of the
/// releases 0.11.0 to 0.20 and from 0.22 on).
const NOT_YET: &ByVersion = &[
    (
        &[0, 11, 0],
        "AfmoeForCausalLM BeeForConditionalGeneration DeepseekOCRForCausalLM FlexOlmoForCausalLM KimiLinearForCausalLM \
         Lfm2MoeForCausalLM LightOnOCRForConditionalGeneration MiniMaxM2ForCausalLM OuroForCausalLM \
         PaddleOCRVLForConditionalGeneration PanguEmbeddedForCausalLM PanguUltraMoEForCausalLM \
         Qwen3OmniMoeForConditionalGeneration",
    ),
    (
        &[0, 11],
        "HunYuanVLForConditionalGeneration MistralLarge3ForCausalLM OpenCUAForConditionalGeneration Plamo3ForCausalLM \
         TeleChatForCausalLM",
    ),
    (&[0, 12], "AudioFlamingo3ForConditionalGeneration BagelForConditionalGeneration Jais2ForCausalLM"),
    (
        &[0, 13],
        "ExaoneMoEForCausalLM GlmAsrForConditionalGeneration Grok1ForCausalLM IQuestCoderForCausalLM \
         IQuestLoopCoderForCausalLM IsaacForConditionalGeneration KananaVForConditionalGeneration \
         Lfm2VlForConditionalGeneration MiMoV2FlashForCausalLM NemotronParseForConditionalGeneration \
         PanguProMoEV2ForCausalLM",
    ),
    (
        &[0, 14],
        "Eagle2_5_VLForConditionalGeneration Glm4MoeLiteForCausalLM KimiK25ForConditionalGeneration \
         Molmo2ForConditionalGeneration Step1ForCausalLM Step3p5ForCausalLM StepVLForConditionalGeneration",
    ),
    (
        &[0, 15],
        "DeepseekOCR2ForCausalLM FunAudioChatForConditionalGeneration GlmMoeDsaForCausalLM GlmOcrForConditionalGeneration \
         InternS1ProForConditionalGeneration MusicFlamingoForConditionalGeneration NemotronHPuzzleForCausalLM \
         OpenPanguVLForConditionalGeneration Qwen3ASRForConditionalGeneration VoxtralRealtimeGeneration",
    ),
    (
        &[0, 16],
        "AXK1ForCausalLM BailingMoeV2_5ForCausalLM FireRedASR2ForConditionalGeneration FunASRForConditionalGeneration \
         Ovis2_6ForCausalLM Ovis2_6_MoeForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration",
    ),
    (
        &[0, 17],
        "HCXVisionV2ForCausalLM HyperCLOVAXForCausalLM MoonshotKimiaForCausalLM OlmoHybridForCausalLM SarvamMLAForCausalLM \
         SarvamMoEForCausalLM",
    ),
    (&[0, 18], "CohereAsrForConditionalGeneration Gemma4ForCausalLM Gemma4ForConditionalGeneration"),
    (
        &[0, 19],
        "CheersForConditionalGeneration DeepseekV4ForCausalLM Exaone4_5_ForConditionalGeneration \
         FireRedLIDForConditionalGeneration Granite4VisionForConditionalGeneration HYV3ForCausalLM Ministral3ForCausalLM \
         NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3 Param2MoEForCausalLM Phi4ForCausalLMV \
         Rnj1ForCausalLM TeleChat3ForCausalLM",
    ),
    (
        &[0, 20],
        "Cohere2MoeForCausalLM HfMoondream InternS2PreviewForConditionalGeneration LagunaForCausalLM MiMoV2ForCausalLM \
         MiMoV2OmniForCausalLM MiniCPMV4_6ForConditionalGeneration Moondream3ForCausalLM OpenVLAForActionPrediction \
         QianfanOCRForConditionalGeneration",
    ),
    (
        &[0, 22],
        "Cosmos3ForConditionalGeneration Gemma4UnifiedForConditionalGeneration GraniteSpeechPlusForConditionalGeneration \
         MellumForCausalLM Step3p7ForConditionalGeneration",
    ),
    (
        &[0, 23],
        "DiffusionGemmaForBlockDiffusion HrmTextForCausalLM MiniMaxM3SparseForCausalLM \
         MiniMaxM3SparseForConditionalGeneration",
    ),
    (
        &[0, 24],
        "LlavaOnevision2ForConditionalGeneration MossTranscribeDiarizeForConditionalGeneration UnlimitedOCRForCausalLM",
    ),
    (
        &[0, 25],
        "Cosmos3EdgeForConditionalGeneration InklingForCausalLM InklingForConditionalGeneration \
         LongcatFlashNgramForCausalLM",
    ),
    (
        &[0, 26],
        "ExaoneMoeForCausalLM KimiK3ForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM VaultGemmaForCausalLM \
         VibeVoiceAsrForConditionalGeneration",
    ),
    (
        &[0, 27],
        "BailingMoeV3ForCausalLM Dots3NoteForCausalLM InternS2MobiusForConditionalGeneration MuseGlimmerForCausalLM \
         MuseGlimmerForConditionalGeneration",
    ),
    (
        &[0, 28],
        "GraniteMoeSWAForCausalLM GraniteSWAForCausalLM HYV4ForCausalLM NemotronH_Omni_Reasoning_V3 Qwen4ExpForCausalLM \
         Qwen4ExpForConditionalGeneration",
    ),
    (
        &[0, 29],
        "BailingMoeV3VLForConditionalGeneration CohereCompassForConditionalGeneration DeepseekV41ForCausalLM \
         DeepseekV4ForConditionalGeneration Glm5NextForCausalLM Glm5NextForConditionalGeneration K2HorizonForCausalLM \
         NanbeigeForCausalLM",
    ),
    (&[0, 31], "ClefOmniForJointSchema MiniCPMV4_7ForConditionalGeneration"),
    (
        &[0, 32],
        "AliceAIForCausalLM Alpamayo2Super BeamForCausalLM ClefFlashForJointSchema DomynEdgeForCausalLM DoryForCausalLM \
         FlintForCausalLM Kolibri1ForCausalLM MiniCPMOcrForConditionalGeneration MuseSparkForConditionalGeneration \
         RadioMBartPrefixForCausalLM Step5ForCausalLM Step5ForConditionalGeneration",
    ),
];

impl Setup<'_> {
    /// Says which of the checkpoint's classes this version does not have.
    pub(super) fn class_warnings(&self) -> Vec<Warning> {
        let classes = self.architecture.architectures();
        let gone = classes.iter().filter_map(|class| {
            let last = last_version_with(class, self.engine)?;
            Some(format!("no longer has {class} (last: {last})"))
        });
        let not_yet = |class: &str| {
            let last = last_version_without(class, self.engine)?;
            Some(format!("has no {class} of its own yet ({last} has none)"))
        };
        // The newest rules lack no class of the table, which is long.
        let newest = NOT_YET.last().and_then(|(last, _)| next_to(last));
        let lacks_some = newest.is_some_and(|newest| !self.engine.at_least(&newest));
        let type_alone = self.architecture.model_type().filter(|_| lacks_some && classes.is_empty());
        let of_type = type_alone.and_then(first_class);
        let named =
            classes.iter().map(String::as_str).filter(|_| lacks_some).chain(of_type).filter_map(not_yet);
        let told = |what| {
            let what = format!("this version of vLLM {what}; the figures follow its planner's rules");
            Warning::new("architectures", what)
        };
        let never = classes.iter().filter(|class| !is_of_any_release(class)).map(|class| {
            let what = format!(
                "no release of vLLM that was read has a class {class} of its own; where it runs at all it is by transformers, \
                 and the figures follow vLLM's planner"
            );
            Warning::new("architectures", what)
        });
        gone.chain(named).map(told).chain(never).collect()
    }
}

/// Endings that vLLM exchanges for one another where it has no class of that name (0.33, `_SUFFIX_TO_DEFAULTS` of
/// `config/model.py`; `_normalize_arch` of `models/registry.py`).
const ENDINGS: [&str; 15] = [
    "ForCausalLM",
    "ForConditionalGeneration",
    "ChatModel",
    "LMHeadModel",
    "ForTextEncoding",
    "EmbeddingModel",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForAudioClassification",
    "ForImageClassification",
    "ForVideoClassification",
    "ClassificationModel",
    "ForRewardModeling",
    "RewardModel",
    "Model",
];

/// Whether some release has the class, or one that it converts into it.
fn is_of_any_release(class: &str) -> bool {
    let stem = ENDINGS.iter().find_map(|ending| class.strip_suffix(ending));
    let has = |stem: &str| ENDINGS.iter().any(|ending| has_line(OF_ANY_RELEASE, &format!("{stem}{ending}")));
    has_line(OF_ANY_RELEASE, class) || stem.is_some_and(has)
}

/// The last version of vLLM known not to have `class` yet, where `engine` is no newer.
fn last_version_without(class: &str, engine: &Engine) -> Option<String> {
    let last = version_of(NOT_YET, class)?;
    (!engine.at_least(&next_to(last)?)).then(|| shown(last))
}

/// The last version of vLLM that had `class`, where `engine` no longer has it.
fn last_version_with(class: &str, engine: &Engine) -> Option<String> {
    let last = version_of(GONE, class)?;
    engine.at_least(&next_to(last)?).then(|| shown(last))
}

/// The class that came first of those whose names start as a `model_type` does, for configs that name no class: `qwen4_exp_text` is
/// `Qwen4ExpForCausalLM`'s.
fn first_class(model_type: &str) -> Option<&'static str> {
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    let start = plain(model_type.strip_suffix("_text").unwrap_or(model_type)) + "for";
    let mut classes = NOT_YET.iter().flat_map(|(_, classes)| classes.split(' '));
    classes.find(|class| plain(class).starts_with(&start))
}

fn version_of(table: &ByVersion, class: &str) -> Option<&'static [u32]> {
    let has = |(_, classes): &&(_, &str)| classes.split(' ').any(|known| known == class);
    table.iter().find(has).map(|(version, _)| *version)
}

fn next_to(version: &[u32]) -> Option<Vec<u32>> {
    let (last, before) = version.split_last()?;
    Some([before, &[last + 1]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_have_every_table() {
        let names: Vec<&str> = OF_ANY_RELEASE.lines().collect();
        assert!(names.is_sorted());
        for (_, classes) in GONE.iter().chain(NOT_YET) {
            assert!(classes.split(' ').all(|class| has_line(OF_ANY_RELEASE, class)), "{classes}");
        }
        for class in ["GPTNeoForCausalLM", "OpenELMForCausalLM", "MoshiForConditionalGeneration"] {
            assert!(!is_of_any_release(class), "{class}");
        }
        // Converted from `LlamaForCausalLM` and the like.
        for class in ["LlamaForSequenceClassification", "MistralModel", "Qwen2ForRewardModeling"] {
            assert!(is_of_any_release(class), "{class}");
        }
    }

    #[test]
    fn the_newest_version_stands_last() {
        let (last, _) = NOT_YET.last().unwrap();
        assert!(NOT_YET.iter().all(|(version, _)| version <= last));
    }

    #[test]
    fn a_class_is_gone_after_its_last_version() {
        let last = |class: &str, engine: &str| last_version_with(class, &engine.parse().unwrap());
        assert_eq!(last("BambaForCausalLM", "vllm@0.24").as_deref(), Some("0.23"));
        assert_eq!(last("BambaForCausalLM", "vllm@0.23.0"), None);
        assert_eq!(last("MiniMaxM1ForCausalLM", "vllm").as_deref(), Some("0.23"));
        assert_eq!(last("LlamaForCausalLM", "vllm"), None);
    }

    /// `models/registry.py`: 0.28.0 has no `Qwen4Exp…` and 0.29.0 both, 0.25.1 no `Inkling…`, 0.32.0 no `Step5ForCausalLM`.
    #[test]
    fn a_class_comes_with_its_first_version() {
        let without = |class: &str, engine: &str| last_version_without(class, &engine.parse().unwrap());
        for (class, last, first) in [
            ("DeepseekV4ForCausalLM", "0.19", "0.20"),
            ("Gemma4ForCausalLM", "0.18", "0.19.1"),
            ("Qwen3_5MoeForConditionalGeneration", "0.16", "0.17.1"),
            ("KimiLinearForCausalLM", "0.11.0", "0.11.1"),
            ("MistralLarge3ForCausalLM", "0.11", "0.12.0"),
            ("InklingForCausalLM", "0.25", "0.26.0"),
            ("Qwen4ExpForConditionalGeneration", "0.28", "0.29.0"),
            ("Step5ForCausalLM", "0.32", "0.33.0"),
        ] {
            assert_eq!(without(class, &format!("vllm@{last}")).as_deref(), Some(last), "{class}");
            assert_eq!(without(class, &format!("vllm@{first}")), None, "{class}");
        }
        assert_eq!(without("LlamaForCausalLM", "vllm@0.11.0"), None);
    }

    /// Names of classes and of `model_type` in vLLM's registry and transformers' configs.
    #[test]
    fn a_model_type_names_its_first_class() {
        for (model_type, class) in [
            ("qwen4_exp_text", Some("Qwen4ExpForCausalLM")),
            ("qwen3_5_moe_text", Some("Qwen3_5MoeForConditionalGeneration")),
            ("glm5_next", Some("Glm5NextForCausalLM")),
            ("deepseek_v4", Some("DeepseekV4ForCausalLM")),
            ("llama", None),
            ("glm4", None),
        ] {
            assert_eq!(first_class(model_type), class, "{model_type}");
        }
    }
}
