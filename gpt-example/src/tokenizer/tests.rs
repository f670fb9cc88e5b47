use proptest::prelude::*;

use super::learn::learn;
use super::*;

const TEXT: &str = lipsum::LIBER_PRIMUS;

fn learnt(vocabulary: usize) -> Tokenizer {
    let json = learn(TEXT.as_bytes(), "Cicero", vocabulary).expect("a text");
    Tokenizer::from_json(json, Path::new("tokenizer.json")).expect("just made")
}

#[test]
fn valid_text_passes_and_the_rest_is_replaced() {
    assert_eq!(printable("Ärger,\n\tja".as_bytes()), "Ärger,\n\tja");
    assert_eq!(printable(b"a\x1b[2Jb\xc3"), "a\u{FFFD}[2Jb\u{FFFD}");
}

#[test]
fn a_learnt_tokenizer_has_the_asked_tokens_and_writes_its_text_with_fewer_than_bytes() {
    let tokenizer = learnt(400);
    assert_eq!(tokenizer.vocabulary(), 400);
    let tokens = tokenizer.encode(TEXT.as_bytes(), "it").expect("text");
    assert!(tokens.len() * 3 < TEXT.len() * 2, "{}", tokens.len());
    assert!(tokens.iter().all(|&token| token < 400));
    assert_eq!(tokenizer.decode(&tokens).expect("text"), TEXT.as_bytes());
}

#[test]
fn the_same_text_gives_the_same_file() {
    assert_eq!(learnt(300).json(), learnt(300).json());
}

#[test]
fn the_first_pair_that_is_joined_is_the_most_frequent_one() {
    // `ab` occurs four times, all other pairs within words less often.
    let json = learn(b"abx aby abz ab", "it", 257).expect("a text");
    let tokenizer = Tokenizer::from_json(json, Path::new("it")).expect("made");
    assert_eq!(tokenizer.encode(b"ab", "it").expect("text"), [256]);
}

/// The learnt tokenizer with parts of its file replaced.
fn changed(parts: serde_json::Value) -> Tokenizer {
    let plain = learnt(400);
    let json = plain.json().expect("a file");
    let mut json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    for (name, part) in parts.as_object().expect("parts") {
        json[name] = part.clone();
    }
    Tokenizer::from_json(json.to_string(), Path::new("changed")).expect("valid")
}

/// The tokens that the crate gives a text, all at once or piece by piece.
fn tokens_of<'a>(tokenizer: &Tokenizer, pieces: impl IntoIterator<Item = &'a str>) -> Vec<u32> {
    let file = tokenizer.0.as_ref().expect("from a file");
    let encode = |text| file.tokenizer.encode_fast(text, false).expect("text");
    let pieces = pieces.into_iter().map(encode);
    pieces
        .flat_map(|tokens| tokens.get_ids().to_vec())
        .collect()
}

/// More than one piece.
fn long_text() -> String {
    let text = TEXT.repeat(40).replace(". ", ".\n\n");
    assert!(pieces::cut(&text).count() > 1);
    text
}

#[test]
fn long_texts_are_read_in_pieces_under_gpt_2s_kind_and_have_the_tokens_of_the_whole() {
    let text = long_text();
    let added = serde_json::json!([{
        "id": 400, "content": "quod", "single_word": true, "lstrip": true, "rstrip": false,
        "normalized": false, "special": true
    }]);
    for tokenizer in [
        learnt(400),
        changed(serde_json::json!({ "added_tokens": added })),
    ] {
        assert!(tokenizer.0.as_ref().expect("from a file").in_pieces);
        let whole = tokens_of(&tokenizer, [text.as_str()]);
        let told = tokenizer.encode(text.as_bytes(), "it").expect("text");
        assert!(whole == told, "other tokens");
    }
}

#[test]
fn long_texts_whose_pieces_would_have_other_tokens_are_read_as_one() {
    let text = long_text();
    let first = pieces::cut(&text).next().expect("a piece");
    let last = first.rsplit(' ').next().expect("a word");
    let added = |content: &str, rstrip: bool| {
        serde_json::json!({"added_tokens": [{
            "id": 400, "content": content, "single_word": false, "lstrip": false,
            "rstrip": rstrip, "normalized": false, "special": true
        }]})
    };
    let byte_level = |prefix: bool, words: bool| {
        serde_json::json!({
            "type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": words
        })
    };
    let metaspace = serde_json::json!({
        "type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "first", "split": true
    });
    // Joins the end of a line to what stands before it, as newer byte-level tokenizers do.
    let joining = serde_json::json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s+| ?\p{L}+"},
         "behavior": "Isolated", "invert": false},
        byte_level(false, false),
    ]});
    let joins = serde_json::json!({
        "type": "BPE", "vocab": {".": 0, "\u{10a}": 1, ".\u{10a}": 2, "a": 3},
        "merges": [[".", "\u{10a}"]]
    });
    let letters = serde_json::json!({
        "type": "BPE", "vocab": {"\u{2581}": 0, "\n": 1, "a": 2, "\u{120}": 3}, "merges": []
    });
    let strip = serde_json::json!({"type": "Strip", "strip_left": true, "strip_right": true});
    let prepend = serde_json::json!({"type": "Prepend", "prepend": "a"});
    let cases = [
        (
            "prefix",
            serde_json::json!({"pre_tokenizer": byte_level(true, true)}),
        ),
        (
            "metaspace",
            serde_json::json!({"pre_tokenizer": metaspace, "model": letters}),
        ),
        (
            "joined",
            serde_json::json!({"pre_tokenizer": joining, "model": joins}),
        ),
        ("strip", serde_json::json!({"normalizer": strip})),
        ("prepend", serde_json::json!({"normalizer": prepend})),
        ("a token that strips", added(last, true)),
        ("a token of two lines", added(&format!("{last}\n\n"), false)),
    ];
    for (name, parts) in cases {
        let tokenizer = changed(parts);
        let whole = tokens_of(&tokenizer, [text.as_str()]);
        let told = tokenizer.encode(text.as_bytes(), "it").expect("text");
        assert!(whole == told, "{name}: other tokens");
        assert!(whole != tokens_of(&tokenizer, pieces::cut(&text)), "{name}");
    }
}

#[test]
fn what_a_file_says_of_cutting_and_padding_is_left_out() {
    let plain = learnt(300);
    let mut json: serde_json::Value =
        serde_json::from_str(plain.json().expect("a file")).expect("JSON");
    json["truncation"] = serde_json::json!({
        "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0
    });
    let short = Tokenizer::from_json(json.to_string(), Path::new("short")).expect("valid");
    let [short, plain] = [short, plain].map(|one| one.encode(b"quod erat demonstrandum", "it"));
    assert_eq!(short.expect("text"), plain.expect("text"));
}

#[test]
fn foreign_files_are_refused_by_name() {
    let cases = [
        ("", "EOF"),
        ("{}", "Model missing"),
        ("[1, 2]", "invalid type"),
        (r#"{"version":"9.0"}"#, "version"),
    ];
    for (json, named) in cases {
        let read = Tokenizer::from_json(json.to_owned(), Path::new("some.json"));
        let error = read.expect_err(json).to_string();
        assert!(
            error.starts_with("some.json is no tokenizer.json"),
            "{error}"
        );
        assert!(
            error.contains(named) && error.lines().count() == 1,
            "{error}"
        );
    }
    let error = learnt(256).encode(b"a\xff", "a.bin").expect_err("no text");
    assert!(
        error
            .to_string()
            .contains("a.bin is not UTF-8 (see its byte 1)")
    );
    assert!(matches!(
        learn(b"a", "a", 255),
        Err(TokenizerError::TooFew(255))
    ));
}

/// The crate itself takes such a file for granted and fails where a token is shorter than the prefix.
#[test]
fn a_prefix_longer_than_a_token_is_an_error() {
    let json = r###"{"version":"1.0","model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},
        "merges":[["a","b"]],"continuing_subword_prefix":"##"}}"###;
    let read = Tokenizer::from_json(json.to_owned(), Path::new("it"));
    assert!(
        matches!(read, Err(TokenizerError::Foreign { .. })),
        "{read:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_text_comes_back_from_its_tokens(text in any::<String>(), spaced in "[ a-c\n\t]{0,40}") {
        static TOKENIZER: std::sync::LazyLock<Tokenizer> = std::sync::LazyLock::new(|| learnt(320));
        for text in [text, spaced] {
            let tokens = TOKENIZER.encode(text.as_bytes(), "it").expect("text");
            prop_assert_eq!(TOKENIZER.decode(&tokens).expect("text"), text.as_bytes());
        }
    }

    #[test]
    fn a_file_that_was_changed_at_random_is_read_or_refused(
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        static JSON: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
            let json = learn(b"quod erat demonstrandum, quod erat", "it", 270).expect("a text");
            json.into_bytes()
        });
        let mut json = JSON.clone();
        for (place, byte) in places {
            let place = place.index(json.len());
            json[place] = byte;
        }
        if cut {
            json.truncate(length.index(json.len()));
        }
        let json = String::from_utf8_lossy(&json).into_owned();
        if let Ok(tokenizer) = Tokenizer::from_json(json, Path::new("it")) {
            // Whatever it is now, it may be used.
            let tokens = tokenizer.encode("quod erat".as_bytes(), "it");
            let _ = tokens.and_then(|tokens| tokenizer.decode(&tokens));
        }
    }
}
