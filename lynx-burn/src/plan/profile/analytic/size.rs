//! GPTs by name.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The sizes of a GPT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GptSize {
    /// What it is called.
    pub name: String,
    /// Layers, `L`.
    pub layers: u64,
    /// Width of the residual stream, `h`.
    pub hidden: u64,
    /// Heads of attention, `a`. Divides `hidden`.
    pub heads: u64,
    /// Rows of the embedding, `v`.
    pub vocabulary: u64,
    /// Whether the head multiplies with the embedding instead of a matrix of its own.
    pub tied: bool,
    /// Whether positions are an embedding too, with a row for each token of the sequence.
    pub learned_positions: bool,
    /// Tokens of a sequence that it is trained with.
    pub context: u64,
}

/// A name that no GPT here has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no model is named {name:?}; the known ones are {}", GptSize::NAMES.join(", "))]
pub struct UnknownSize {
    name: String,
}

impl GptSize {
    /// The names that can be read with [`str::parse`]: the model that `gpt train` trains if nothing
    /// is said, GPT-2's own sizes, and those that the Lynx paper evaluates.
    pub const NAMES: [&str; 11] = [
        "nano",
        "gpt2",
        "gpt2-medium",
        "gpt2-large",
        "gpt2-xl",
        "1.3b",
        "4.7b",
        "7b",
        "13b",
        "20b",
        "23b",
    ];

    /// The number of parameters for a sequence of this many tokens: `L (12 h^2 + 13 h)` in the
    /// layers (arXiv 2104.04473, section 5.1), the embeddings, and `2 h` for the last norm.
    pub fn parameters(&self, sequence: u64) -> u64 {
        let [layers, h, v] = [self.layers, self.hidden, self.vocabulary].map(u128::from);
        let matrices = if self.tied { v } else { 2 * v };
        let positions = if self.learned_positions { sequence } else { 0 };
        // Where 128 bits do not suffice, the answer is "more than can be counted" all the same.
        let inside = (12 * h + 13).saturating_mul(h).saturating_mul(layers);
        let ends = (matrices + u128::from(positions) + 2).saturating_mul(h);
        let all = inside.saturating_add(ends);
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

impl FromStr for GptSize {
    type Err = UnknownSize;

    /// Where the sizes come from:
    ///
    /// - `nano`: ours; bytes as tokens.
    /// - `gpt2` to `gpt2-xl`: the four of "Language Models are Unsupervised Multitask Learners"
    ///   (2019), table 2, with the heads of the weights that were published with it.
    /// - `1.3b` and `13b`: "GPT-3 XL" and "GPT-3 13B", table 2.1 of arXiv 2005.14165. It gives XL
    ///   24 heads of 128, which do not make 2048; like Megatron-LM we take 16. It gives 13B a width
    ///   of 5140; 40 heads of 128 make 5120.
    /// - `7b`: "GPT-3 6.7B" of the same table.
    /// - `20b`: GPT-NeoX-20B, arXiv 2204.06745: no learned positions (they are rotary, which has no
    ///   parameters) and a head of its own. Its layers, which compute attention and MLP side by
    ///   side, are taken for ordinary ones.
    /// - `4.7b`: ours; 40 layers, 24 heads of 128.
    /// - `23b`: ours; the "22B" of arXiv 2205.05198 (64 heads, width 6144, 48 layers) with two
    ///   layers more.
    ///
    /// The Lynx paper's own widths and depths are not at hand. Their vocabulary is GPT-2's
    /// 50 257, padded to 51 200 as in arXiv 2205.05198; for `20b`, that model's 50 432.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let (layers, hidden, heads) = match name {
            "nano" => (4, 128, 4),
            "gpt2" => (12, 768, 12),
            "gpt2-medium" => (24, 1024, 16),
            "gpt2-large" => (36, 1280, 20),
            "gpt2-xl" => (48, 1600, 25),
            "1.3b" => (24, 2048, 16),
            "4.7b" => (40, 3072, 24),
            "7b" => (32, 4096, 32),
            "13b" => (40, 5120, 40),
            "20b" => (44, 6144, 64),
            "23b" => (50, 6144, 64),
            _ => {
                return Err(UnknownSize {
                    name: name.to_owned(),
                });
            }
        };
        let (vocabulary, context) = match name {
            "nano" => (256, 64),
            "20b" => (50_432, 2048),
            _ if name.starts_with("gpt2") => (50_257, 1024),
            _ => (51_200, 2048),
        };
        let neox = name == "20b";
        Ok(Self {
            name: name.to_owned(),
            layers,
            hidden,
            heads,
            vocabulary,
            tied: !neox,
            learned_positions: !neox,
            context,
        })
    }
}
