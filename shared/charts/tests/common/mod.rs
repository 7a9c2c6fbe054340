//! Six models with state computed by hand: slope × n + fixed part, BF16, one request. Sources: each model's config; the
//! totals at 100,000 tokens are the project's table of checked numbers.

#![allow(dead_code, reason = "each test file uses its part")]

use kvscope_charts::figures::{
    GrowthInput, GrowthScale, Layer, LayerPart, LayerStrip, Limit, MeasuredBytes, PartGrowth, Provenance,
    Series, sample_contexts,
};
use kvscope_charts::palette::{SeriesColour, assign_colours};
use kvscope_charts::{Growth, Size};
use kvscope_sizing::{ByteKind, Bytes, BytesPerToken, ComponentKind, Tokens, UnitSystem};

pub(crate) const DOMAIN: (Tokens, Tokens) = (Tokens::new(1 << 10), Tokens::new(1 << 20));
pub(crate) const CURSOR: Tokens = Tokens::new(100_000);

pub(crate) type Model = (&'static str, &'static str, u64, u64, u64);

/// Name, family, slope numerator and denominator in bytes and tokens, fixed bytes.
pub(crate) const MODELS: [Model; 6] = [
    // 62 layers × 2 × 8 heads × 128 × 2 B
    ("MiniMax-M2.7", "MiniMax", 253_952, 1, 0),
    // 78 layers × ((512 + 64) × 2 B + 132 B index key)
    ("GLM-5.1", "GLM", 100_152, 1, 0),
    // 61 layers × ((512 + 64) × 2 B + 132 B index key)
    ("DeepSeek-V3.2", "DeepSeek", 78_324, 1, 0),
    // 61 layers × (512 + 64) × 2 B
    ("Kimi-K2.6", "Kimi", 70_272, 1, 0),
    // 15 layers × 2 × 2 heads × 256 × 2 B; 45 layers × (64 × 128 × 128 × 4 B + 12,288 × 3 × 2 B)
    ("Qwen3.5-397B-A17B", "Qwen", 30_720, 1, 192_061_440),
    // 30 layers × 652 B / 4 tokens + 31 layers × 584 B / 128 tokens = 80,503 B / 16 tokens
    ("DeepSeek-V4-Pro", "DeepSeek", 80_503, 16, 4_559_872 + 18_710_528),
];

pub(crate) fn contexts() -> Vec<Tokens> {
    sample_contexts(DOMAIN, 200, &[CURSOR])
}

pub(crate) fn colours() -> Vec<SeriesColour> {
    assign_colours(&MODELS.map(|(_, family, ..)| family))
}

pub(crate) fn series(contexts: &[Tokens]) -> Vec<Series> {
    MODELS
        .iter()
        .zip(colours())
        .map(|(&(name, _, numerator, denominator, fixed), colour)| Series {
            id: name.to_lowercase(),
            name: name.to_owned(),
            colour,
            provenance: Provenance::Computed,
            values: contexts.iter().map(|n| Bytes::new(n.get() * numerator / denominator + fixed)).collect(),
            ..Series::default()
        })
        .collect()
}

/// The same models in an engine that keeps whole blocks of 1568 tokens and two more states, and with the contexts that
/// their configs allow.
pub(crate) fn reserved(contexts: &[Tokens]) -> Vec<Series> {
    const BLOCK: u64 = 1568;
    let allowed = [Some(204_800), Some(202_752), Some(163_840), Some(262_144), Some(262_144), None];
    let with =
        |((series, &(_, _, numerator, denominator, fixed)), allowed): ((Series, &Model), Option<u64>)| {
            let blocks = |n: &Tokens| n.get().div_ceil(BLOCK) * BLOCK;
            Series {
                reserved: contexts
                    .iter()
                    .map(|n| Bytes::new(blocks(n) * numerator / denominator + 3 * fixed))
                    .collect(),
                allowed: allowed.map(Tokens::new),
                ..series
            }
        };
    series(contexts).into_iter().zip(&MODELS).zip(allowed).map(with).collect()
}

/// Seven made-up versions of one family, which share a hue.
pub(crate) fn family(contexts: &[Tokens]) -> Vec<Series> {
    let colours = assign_colours(&["GLM"; 7]);
    let version = |(index, colour): (u64, SeriesColour)| Series {
        id: format!("glm-{index}"),
        name: format!("GLM-{index}"),
        colour,
        values: contexts.iter().map(|n| Bytes::new(n.get() * (376_832 >> index))).collect(),
        ..Series::default()
    };
    (0..).zip(colours).map(version).collect()
}

pub(crate) fn of(series: &[Series], contexts: &[Tokens], size: Size, units: UnitSystem) -> Growth {
    let is_reserving = series.iter().any(|series| !series.reserved.is_empty());
    on_ranks(is_reserving.then_some(1), series, contexts, size, units)
}

pub(crate) fn on_ranks(
    ranks: Option<u64>,
    series: &[Series],
    contexts: &[Tokens],
    size: Size,
    units: UnitSystem,
) -> Growth {
    Growth::layout(&GrowthInput {
        contexts,
        series,
        domain: DOMAIN,
        scale: GrowthScale::Log,
        units,
        bytes: ByteKind::Resident,
        size,
        measured: &[],
        limits: &[],
        ranks,
    })
    .expect("the test's figure is possible")
}

pub(crate) fn measured() -> Vec<MeasuredBytes> {
    // Kimi-K2.6, half a per cent above the line, as an allocator rounds up.
    [8192_u64, 32_768, 131_072]
        .map(|n| MeasuredBytes {
            colour: colours()[3],
            context: Tokens::new(n),
            bytes: Bytes::new(n * 70_272 / 200 * 201),
        })
        .to_vec()
}

pub(crate) fn limits() -> Vec<Limit> {
    vec![Limit {
        bytes: Bytes::new(60_000_000_000),
        label: "left after MiniMax-M2.7 weights, per request at batch 16 · 60 GB".to_owned(),
        colour: None,
        crossings: Vec::new(),
    }]
}

pub(crate) fn growth(size: Size, scale: GrowthScale, units: UnitSystem) -> Growth {
    let contexts = contexts();
    Growth::layout(&GrowthInput {
        contexts: &contexts,
        series: &series(&contexts),
        domain: DOMAIN,
        scale,
        units,
        bytes: ByteKind::Resident,
        size,
        measured: &measured(),
        limits: &limits(),
        ranks: None,
    })
    .expect("the test's figure is possible")
}

pub(crate) fn strips(context: Tokens) -> Vec<LayerStrip> {
    let n = context.get();
    let part = |kind, bytes, growth| LayerPart { kind, bytes: Bytes::new(bytes), growth };
    let growing = |kind, bytes| part(kind, bytes, PartGrowth::Growing);
    let still = |kind, bytes| part(kind, bytes, PartGrowth::Still);
    let mla = |index: bool| {
        let mut parts = vec![growing(ComponentKind::MlaLatent, n * 1152)];
        if index {
            parts.push(growing(ComponentKind::IndexKey, n * 132));
        }
        Layer { parts }
    };
    let hybrid = |index: usize| Layer {
        parts: if index % 4 == 3 {
            vec![growing(ComponentKind::Kv, n * 2048)]
        } else {
            vec![still(ComponentKind::RecurrentState, 4_194_304), still(ComponentKind::ConvState, 73_728)]
        },
    };
    // The compressor's share of a layer is set so that the sums are the table's.
    let compressed = |index: usize| {
        let window = still(ComponentKind::WindowKv, 128 * 584);
        if index >= 2 && index.is_multiple_of(2) {
            Layer {
                parts: vec![
                    growing(ComponentKind::CompressedKv, n / 4 * 584),
                    growing(ComponentKind::IndexKey, n / 4 * 68),
                    still(ComponentKind::CompressorState, 352_798),
                    window,
                ],
            }
        } else {
            Layer {
                parts: vec![
                    growing(ComponentKind::CompressedKv, n / 128 * 584),
                    still(ComponentKind::CompressorState, 262_148),
                    window,
                ],
            }
        }
    };
    let layers: [Vec<Layer>; 6] = [
        vec![Layer { parts: vec![growing(ComponentKind::Kv, n * 4096)] }; 62],
        vec![mla(true); 78],
        vec![mla(true); 61],
        vec![mla(false); 61],
        (0..60).map(hybrid).collect(),
        (0..61).map(compressed).collect(),
    ];
    MODELS
        .iter()
        .zip(colours())
        .zip(layers)
        .map(|((&(name, _, numerator, denominator, fixed), colour), layers)| LayerStrip {
            id: name.to_lowercase(),
            name: name.to_owned(),
            colour,
            layers,
            slope: Some(
                BytesPerToken::new(Bytes::new(numerator), denominator).expect("a denominator above zero"),
            ),
            fixed: Some(Bytes::new(fixed)),
        })
        .collect()
}

/// `count` made-up models over 500 contexts: what a crowded figure is drawn from.
pub(crate) fn crowd(count: u64, contexts: &[Tokens]) -> Vec<Series> {
    let families: Vec<String> = (0..count).map(|index| format!("family {}", index % 13)).collect();
    let colours = assign_colours(&families.iter().map(String::as_str).collect::<Vec<_>>());
    (0..count)
        .zip(colours)
        .map(|(index, colour)| Series {
            id: format!("model-{index}"),
            name: format!("Model-{index}-{}B", 7 * index + 1),
            colour,
            provenance: Provenance::Computed,
            values: contexts
                .iter()
                .map(|n| Bytes::new(n.get() * (4096 + 6000 * index) + (index % 5) * 40_000_000))
                .collect(),
            ..Series::default()
        })
        .collect()
}
