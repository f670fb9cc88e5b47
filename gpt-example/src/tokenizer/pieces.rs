//! A long text in pieces, so that its tokens are made on all cores and in bounded memory.
//!
//! A piece ends behind what is no space and before the end of a line. GPT-2's way of finding words
//! never joins those two, and looks ahead from spaces only: the pieces' tokens are the whole
//! text's. Other ways may see the beginning of a text where a piece begins (a space put before it,
//! spaces taken away), or join what was cut: a text is then one piece.

use tokenizers::{PreTokenizerWrapper, Tokenizer};

/// A piece has at least so many bytes, if the text has.
const LEAST: usize = 1 << 20;

/// Whether the pieces of any text have, under this tokenizer, the tokens of the whole.
///
/// `false` where that is merely not known.
pub(super) fn exact(tokenizer: &Tokenizer) -> bool {
    let words = match tokenizer.get_pre_tokenizer() {
        Some(PreTokenizerWrapper::ByteLevel(words)) => words.use_regex && !words.add_prefix_space,
        _ => false,
    };
    // A token found before there are words may span a cut, or take the spaces behind it along.
    let mut added = tokenizer
        .get_added_vocabulary()
        .get_added_tokens_decoder()
        .values();
    let spans = added.any(|token| token.rstrip || token.content.contains('\n'));
    words && tokenizer.get_normalizer().is_none() && !spans
}

/// The text's pieces, in order.
pub(super) fn cut(text: &str) -> impl Iterator<Item = &str> {
    cut_at(text, LEAST)
}

fn cut_at(text: &str, least: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, others) = rest.split_at(end(rest, least));
        rest = others;
        Some(piece)
    })
}

/// Where the first piece ends.
fn end(text: &str, least: usize) -> usize {
    let mut before = ' ';
    for (index, char) in text.char_indices() {
        if index >= least && char == '\n' && !before.is_whitespace() {
            return index;
        }
        before = char;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::cut_at;

    #[test]
    fn pieces_end_behind_a_word_and_before_the_end_of_its_line() {
        let text = "one two\n\nthree \nfour\nfive";
        let pieces: Vec<&str> = cut_at(text, 1).collect();
        assert_eq!(pieces, ["one two", "\n\nthree \nfour", "\nfive"]);
        assert_eq!(cut_at(text, 9).collect::<Vec<_>>(), [&text[..20], "\nfive"]);
        assert_eq!(cut_at("", 1).count(), 0);
        assert_eq!(
            cut_at("\u{e4}\u{e4}", 1).collect::<Vec<_>>(),
            ["\u{e4}\u{e4}"]
        );
    }
}
