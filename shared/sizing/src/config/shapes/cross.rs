//! Attention to an encoder's output.

use super::{HeadSet, Shapes};
use crate::config::fields::ENCODER_TOKENS;
use crate::fact::Fact;
use crate::mixer::Mixer;
use crate::warning::Warning;
use crate::{Error, Result};

impl Shapes<'_, '_> {
    /// Its heads are those of the layer's own attention, or what the config says of them (Dia: `cross_num_key_value_heads`).
    pub(super) fn cross(&self, index: usize, warnings: &mut Vec<Warning>) -> Result<Mixer> {
        let mut heads = self.heads(HeadSet::Full, index, warnings)?;
        if let Some(own) = self.fields.count("cross_num_key_value_heads")? {
            heads.kv_heads = own;
            heads.query_heads = self.fields.count("cross_num_attention_heads")?;
        }
        if let Some(own) = self.fields.count("cross_head_dim")? {
            heads.k_width = own.clone();
            heads.v_width = own;
        }
        let encoder_tokens = match self.fields.count_any(&ENCODER_TOKENS)? {
            Some(tokens) => Some(tokens),
            None => self.tokens_of_an_image(warnings)?,
        };
        Ok(Mixer::Cross { heads, encoder_tokens })
    }

    /// Tokens of one image in all its tiles: the patches of each, and one token for the tile as a whole (transformers,
    /// `models/mllama/modeling_mllama.py`, `MllamaVisionModel`).
    fn tokens_of_an_image(&self, warnings: &mut Vec<Warning>) -> Result<Option<Fact>> {
        // Looked at only: the rest of the image's tower says nothing of what the text model keeps.
        let counts = self.fields.without_reading(|| {
            let Some(vision) = self.fields.object("vision_config")? else { return Ok([None, None, None]) };
            let Some(tiles) = vision.count("max_num_tiles")? else { return Ok([None, None, None]) };
            Ok([vision.count("image_size")?, vision.count("patch_size")?, Some(tiles)])
        })?;
        let [Some(image), Some(patch), Some(tiles)] = counts else { return Ok(None) };
        let side = image.get() / patch.get();
        let tokens = side
            .checked_mul(side)
            .and_then(|patches| patches.checked_add(1)?.checked_mul(tiles.get()))
            .ok_or_else(|| Error::field("vision_config.image_size", "the tokens of an image overflow"))?;
        let rule = format!(
            "one image of {} tiles, each ({image} ÷ {patch})² patches and one token more",
            tiles.get(),
            image = image.get(),
            patch = patch.get()
        );
        warnings.push(Warning::new(
            "encoder_tokens",
            format!("not given; {rule} make {tokens} tokens that cross-attention keeps"),
        ));
        Ok(Some(Fact::derived(tokens, rule)))
    }
}
