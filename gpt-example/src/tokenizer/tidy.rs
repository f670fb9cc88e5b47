//! A `tokenizer.json` before it is read: without what is for other uses, and without what the crate
//! that reads it takes for granted and fails at.

use serde_json::Value;

/// The file's text without padding, without a length at which texts are cut off, and without dropout,
/// with which a text would have other tokens each time.
///
/// # Errors
///
/// If it is no JSON, or a merge is of a token shorter than the prefix that it should have.
pub(super) fn tidied(json: &str) -> Result<String, String> {
    let mut file: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    for name in ["truncation", "padding"] {
        if let Some(setting) = file.get_mut(name) {
            *setting = Value::Null;
        }
    }
    let Some(model) = file.get_mut("model") else {
        return Ok(file.to_string());
    };
    if let Some(dropout) = model.get_mut("dropout") {
        *dropout = Value::Null;
    }
    let prefix = model.get("continuing_subword_prefix");
    let prefix = prefix.and_then(Value::as_str).unwrap_or_default();
    let merges = model.get("merges").and_then(Value::as_array);
    for merge in merges.into_iter().flatten() {
        let second = match merge {
            Value::String(both) => both.rsplit_once(' ').map(|(_, second)| second),
            other => other.get(1).and_then(Value::as_str),
        };
        if let Some(second) = second.filter(|second| second.get(prefix.len()..).is_none()) {
            return Err(format!(
                "{second:?} is merged and does not begin with {prefix:?}"
            ));
        }
    }
    Ok(file.to_string())
}

#[cfg(test)]
mod tests {
    use super::tidied;

    #[test]
    fn settings_for_other_uses_go_and_all_else_stays() {
        let json = r#"{"model":{"dropout":0.1,"type":"BPE"},"padding":{"a":1},"truncation":2}"#;
        let tidy = r#"{"model":{"dropout":null,"type":"BPE"},"padding":null,"truncation":null}"#;
        assert_eq!(tidied(json).as_deref(), Ok(tidy));
        for json in [
            "[]",
            "{}",
            r#"{"model":3}"#,
            r#"{"model":{"merges":[3,"a",["a"]]}}"#,
        ] {
            assert_eq!(tidied(json).as_deref(), Ok(json));
        }
    }

    #[test]
    fn merges_that_lack_their_prefix_are_told() {
        for merges in [r#"[["a","b"]]"#, r#"["a b"]"#] {
            let json = format!(
                r###"{{"model":{{"continuing_subword_prefix":"##","merges":{merges}}}}}"###
            );
            assert!(
                tidied(&json).is_err_and(|error| error.contains("\"b\"")),
                "{json}"
            );
        }
    }
}
