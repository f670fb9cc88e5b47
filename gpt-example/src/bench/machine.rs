//! On what machine a figure was measured.

use serde::{Deserialize, Serialize};

/// A machine, as far as its figures depend on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub processor: String,
    /// Cores that the process may use.
    pub cores: usize,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// Operating system and architecture.
    pub system: String,
}

impl Machine {
    /// This one. What the system does not tell is "unknown".
    pub fn here() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal");
        let memory: Option<f64> =
            memory.and_then(|text| text.split_whitespace().next()?.parse().ok());
        let gib = memory.unwrap_or(0.0) / f64::from(1 << 20);
        let processor = value(&read("/proc/cpuinfo"), "model name");
        Self {
            processor: processor.unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (gib * 10.0).round() / 10.0,
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }

    /// One line about it.
    pub fn line(&self) -> String {
        format!(
            "{}, {} cores, {} GiB, {}",
            self.processor, self.cores, self.memory_gib, self.system
        )
    }
}
