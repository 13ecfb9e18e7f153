//! What others do on the cores that a group has left.
//!
//! Affinities and cpusets move a group's own processes only. The cores that they leave draw what others
//! make them draw, and are idle only where there is nothing else to do.

use super::cores::{Cores, Reading};
use super::proc_stat;
use crate::Root;
use crate::kept_files::KeptFiles;
use wattio_governor::{Cpus, SourceError};

/// Reads how busy they are.
#[derive(Debug)]
pub struct CoresLeft {
    files: KeptFiles,
    cores: Cores,
    /// The cores of each group, the one that leaves first last.
    groups: Vec<Vec<u32>>,
}

impl CoresLeft {
    /// Of groups, each with its cores; the last one leaves first.
    #[must_use]
    pub fn new(groups: Vec<Vec<u32>>, root: &Root) -> Self {
        Self { files: KeptFiles::new(root), cores: Cores::default(), groups }
    }

    /// How many cores' worth of work was done since the last call on those that each group has left when so
    /// many stayed. Without a tick since then it is 0.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn busy(&mut self, stayed: &[u32]) -> Result<Vec<f64>, SourceError> {
        let reading = self.read()?;
        let left = |(cores, &stayed): (&Vec<u32>, &u32)| -> Cpus {
            cores.iter().copied().skip(stayed as usize).collect()
        };
        let left: Vec<Cpus> = self.groups.iter().zip(stayed).map(left).collect();
        Ok(self.cores.busy(reading, &left))
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        proc_stat::read(&mut self.files)
            .map_err(|message| SourceError::new("cores that were left", message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_on_cores_that_were_left_is_counted_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        let mut left = CoresLeft::new(vec![vec![0, 1, 2], vec![3]], &Root::new(folder.path()));
        let mut busy = |ticks: [[u64; 2]; 4], stayed: [u32; 2]| {
            let line = |(core, [busy, idle]): (usize, [u64; 2])| {
                format!("cpu{core} {busy} 0 0 {idle} 0 0 0 0 0 0\n")
            };
            let text: String = ticks.into_iter().enumerate().map(line).collect();
            std::fs::write(folder.path().join("proc/stat"), text).unwrap();
            left.busy(&stayed).unwrap()
        };
        assert_eq!(busy([[0, 0]; 4], [3, 1]), [0.0, 0.0]);
        // All cores but the third are busy; that one is for a quarter.
        assert_eq!(busy([[100, 0], [100, 0], [25, 75], [100, 0]], [1, 1]), [1.25, 0.0]);
        assert_eq!(busy([[200, 0], [200, 0], [50, 150], [150, 50]], [2, 0]), [0.25, 0.5]);
        assert_eq!(busy([[200, 0], [200, 0], [50, 150], [150, 50]], [2, 0]), [0.0, 0.0]);
        assert_eq!(busy([[300, 0], [200, 100], [150, 150], [150, 150]], [3, 1]), [0.0, 0.0]);
    }

    #[test]
    fn a_kernel_that_does_not_say_is_no_idle_core() {
        let folder = tempfile::tempdir().unwrap();
        let mut left = CoresLeft::new(vec![vec![0, 1]], &Root::new(folder.path()));
        let error = left.busy(&[1]).unwrap_err().to_string();
        assert!(error.contains("/proc/stat"), "{error}");
    }
}
