//! GPT-2 trained through a recomputing pipeline with `lynx-burn`.
//!
//! This is the example to read first. The model ([`model`]) is an ordinary Burn module; [`chain`]
//! is the one file that tells `lynx-burn` where it may be cut. Everything else is what any small
//! language model needs: a corpus ([`data`]), a learning-rate plan ([`schedule`]), a loop
//! ([`train`]) and a voice ([`sample`]). [`pipeline`] is where the trainer is made.
//!
//! Nothing here knows of tapes or of what is recomputed: a policy is a word on the command line, or
//! part of a plan. [`plan`] makes plans, [`simulate`] times and draws them, and [`planned`] hands
//! one to the trainer as [`orders`]; under a memory budget a run is measured, planned, watched, and
//! planned again where it turns out otherwise. [`saved`] is what a run remembers, and [`resume`], [`generate`] and [`evaluate`]
//! what is done with it;
//! [`report`] shows it to a person, and [`dashboard`] while it goes on. [`tokenizer`] makes tokens of
//! text, [`pretrained`] begins with GPT-2's own weights, and [`export`] writes them for others.
#![warn(missing_docs)]

pub mod allocator;
mod beginning;
pub mod bench;
mod budget;
pub mod chain;
pub mod check;
pub mod cli;
pub mod config;
pub mod dashboard;
pub mod data;
mod describe;
pub mod device;
pub mod error;
pub mod evaluate;
pub mod export;
pub mod files;
pub mod generate;
mod init;
pub mod interrupt;
pub mod metrics;
pub mod model;
pub mod orders;
pub mod pipeline;
pub mod plan;
pub mod planned;
mod preset;
pub mod pretrained;
pub mod progress;
pub mod random;
pub mod report;
pub mod resume;
pub mod sample;
pub mod saved;
pub mod schedule;
pub mod simulate;
pub mod table;
pub mod tokenizer;
pub mod train;
mod vocabulary;

pub use chain::Activations;
pub use config::{Activation, ConfigError, GptConfig, Modules};
pub use model::Gpt;
