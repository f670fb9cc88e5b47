//! The model of `gpt train`, run here to see what it costs.

use burn::prelude::*;
use lynx_burn::measure::{MeasureOptions, Measured, measure};

use super::error::PlanningError;
use crate::config::{GptConfig, Modules};
use crate::data::micro_batches;
use crate::device::DeviceName;
use crate::model::Gpt;

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The sizes of the model.
    pub(crate) config: GptConfig,
    /// Whose modules it is made of.
    pub(crate) modules: Modules,
    /// Windows of text in a micro-batch.
    pub(crate) windows: usize,
    /// Ranks that share every segment; the first is run, alone.
    pub(crate) ranks: usize,
    /// How many cores it may use; all of them, if nothing is said.
    pub(crate) cores: Option<usize>,
    /// Where it runs.
    pub(crate) device: DeviceName,
}

/// How many cores each of so many workers of a run has, where they share this machine's: those of a
/// worker that is measured alone must not be more.
pub(crate) fn cores_of_each(
    device: DeviceName,
    workers: usize,
    one_core_each: bool,
) -> Option<usize> {
    match device {
        DeviceName::Flex if one_core_each => Some(1),
        DeviceName::Flex if workers > 1 => {
            let all = std::thread::available_parallelism().map_or(1, usize::from);
            Some((all / workers).max(1))
        }
        _ => None,
    }
}

impl Subject {
    /// Runs every kind of segment.
    ///
    /// # Errors
    ///
    /// If there is no such model or device, or running it fails.
    pub(crate) fn measure(&self) -> Result<Measured, PlanningError> {
        self.config.validate()?;
        self.config.check_ranks(self.ranks)?;
        let device = self.device.open()?;
        let Some(cores) = self.cores else {
            return self.run(&device);
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(cores).build();
        let pool = pool.map_err(PlanningError::Threads)?;
        pool.install(|| self.run(&device))
    }

    fn run(&self, device: &Device) -> Result<Measured, PlanningError> {
        let (config, windows) = (&self.config, self.windows);
        let options = MeasureOptions {
            name: Some(format!("gpt-{}x{}", config.layers, config.d_model)),
            tokens: Some((windows * config.context) as u64),
            ranks: self.ranks,
            ..MeasureOptions::default()
        };
        // What the text says does not matter, only its length does.
        let text = lipsum::LIBER_PRIMUS.bytes().cycle();
        let text: Vec<u8> = text.take(windows + config.context).collect();
        let starts: Vec<usize> = (0..windows).collect();
        let mut parts = micro_batches(&text, &starts, config.context, 1, (device, device));
        let model = Gpt::new(config, 0, device)?.with_modules(self.modules);
        let part = parts.remove(0);
        Ok(measure(model, part.input, part.target, device, &options)?)
    }
}
