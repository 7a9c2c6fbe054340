//! Query heads that share one K/V head, or a few, because a switch says so.

use crate::config::class_defaults;
use crate::config::fields::{Fields, KV_HEADS};
use crate::fact::Fact;
use crate::warning::Warning;
use crate::{Error, Result};

/// A count of groups that does not divide the heads that share them, with the words for both: no class can be built so,
/// and the figure holds only if the fields are right all the same.
pub(crate) fn uneven(groups: (&Fact, &str), heads: (&Fact, &str)) -> Option<Warning> {
    let ((few, of_few), (many, of_many)) = (groups, heads);
    let is_even = many.get().is_multiple_of(few.get());
    let what = || format!("{} {of_few} do not divide {} {of_many}", few.get(), many.get());
    (!is_even).then(|| Warning::new(few.source().place(), what()))
}

/// `attention_head_type`: one K/V head, all heads, or as many as are counted (`SantaCoder`'s `GPT2CustomConfig`, and Dolomite's
/// classes, which shorten the words).
pub(super) fn by_head_type(fields: &Fields<'_>, query_heads: Option<&Fact>) -> Result<Option<Fact>> {
    let Some((path, word)) = fields.text("attention_head_type")? else { return Ok(None) };
    let heads = match (word, query_heads) {
        ("multiquery" | "mqa", _) => {
            Fact::derived(1, format!("{path} = {word}: all query heads share one K/V head"))
        }
        ("multihead" | "mha", Some(query)) => {
            let rule = format!("{path} = {word}: as many as query heads ({})", query.source());
            Fact::derived(query.get(), rule)
        }
        ("multihead" | "mha", None) | ("gqa", _) => return Ok(None),
        (other, _) => {
            let what = format!("unknown type {other:?}; known: multiquery, multihead, gqa");
            return Err(Error::field(path, what));
        }
    };
    if let Some(stated) = fields.count_any(&KV_HEADS)?.filter(|stated| stated.get() != heads.get()) {
        let (taken, other) = (heads.get(), stated.get());
        fields.doubt(&path, format!("{word}, but {} says {other}; {taken} is taken", stated.source()));
    }
    Ok(Some(heads))
}

/// The one head of `multi_query`, whatever counts of K/V heads stand beside it: transformers' `FalconAttention` and
/// `GPTBigCodeConfig` read the switch first. Falcon's new decoder reads the count.
pub(super) fn one_head(fields: &Fields<'_>) -> Result<Option<Fact>> {
    let Some((path, true)) = fields.flag("multi_query")? else { return Ok(None) };
    if fields.flag("new_decoder_architecture")?.is_some_and(|(_, on)| on) {
        return Ok(None);
    }
    if !class_defaults::shares_one_head(fields.model_type())
        && let Some(stated) = fields.count_any(&KV_HEADS)?.filter(|stated| stated.get() != 1)
    {
        let what = format!("true, but {} says {}; one K/V head is taken", stated.source(), stated.get());
        fields.doubt(&path, what);
    }
    let by_default = if fields.has("multi_query") { "" } else { " is true in this class" };
    Ok(Some(Fact::derived(1, format!("{path}{by_default}: all query heads share one K/V head"))))
}

/// MPT's `attn_config`: the count, else one head where `attn_type` says so (llm-foundry, `MultiQueryAttention`). Its `alibi`
/// is of positions and keeps nothing.
pub(super) fn heads_of_mpt(nested: &Fields<'_>) -> Result<Option<Fact>> {
    let stated = nested.count("kv_n_heads")?;
    let one =
        |path| Fact::derived(1, format!("{path} = multiquery_attention: all query heads share one K/V head"));
    // llm-foundry's window limits what a query reads; its cache keeps every token all the same.
    if let Some((path, window)) = nested.find("sliding_window_size")
        && window.as_i64().is_some_and(|window| window > 0)
    {
        let what =
            format!("{window}; the class's cache keeps every token all the same, and so does this figure");
        nested.doubt(path, what);
    }
    let by_type =
        nested.text("attn_type")?.filter(|(_, of)| *of == "multiquery_attention").map(|(path, _)| one(path));
    Ok(stated.or(by_type))
}

/// `ChatGLM`'s groups, which `multi_query_attention` switches on.
pub(super) fn groups(fields: &Fields<'_>) -> Result<Option<Fact>> {
    let switch = fields.flag("multi_query_attention")?;
    let groups = fields.count("multi_query_group_num")?;
    let Some(groups) = groups else {
        let one = |path| Fact::derived(1, format!("{path}: all query heads share one K/V head"));
        return Ok(switch.filter(|(_, on)| *on).map(|(path, _)| one(path)));
    };
    let is_stated = fields.has("multi_query_attention");
    let path = groups.source().to_string();
    match switch {
        Some((_, true)) => Ok(Some(groups)),
        Some((switch, false)) => {
            let state = if is_stated { "false" } else { "absent, and false in this class" };
            let count = groups.get();
            fields.doubt(path, format!("{count}, but {switch} is {state}; the groups are not used"));
            Ok(None)
        }
        None => {
            let what = format!("{}, and multi_query_attention is absent; the groups are used", groups.get());
            fields.doubt(path, what);
            Ok(Some(groups))
        }
    }
}
