//! What a configuration asks of the target.

use crate::frequency::FrequencySettings;
use crate::plant::Layout;
use crate::run::LawSettings;
use crate::server::{Settings, Volume};
use crate::tls::Files;
use crate::volume::{Pace, VolumeMemory};
use std::path::Path;
use wattio_host::ledger::power_model;
use wattio_host::shadow::Mode;
use wattio_target_config::{Config, EXPORTS_MAX, ExportConfig, GroupsError, Idle, PolicyConfig};
use wattio_volume::OpenOptions;

// Each volume that a configuration may name can be told apart.
const _: () = assert!(EXPORTS_MAX <= crate::token::VOLUMES_MAX);

/// How its reactors are grouped.
///
/// # Errors
/// [`GroupsError`] with the key, and what is allowed.
pub fn layout(config: &Config) -> Result<Layout, GroupsError> {
    let mut layout = Layout::new(config.reactors, config.volume_reactors, config.reactors_min)?;
    layout.idle_cores_sleep = config.idle != Idle::Poll;
    Ok(layout)
}

/// The law, and what it governs, in a mode; `path` is that of the configuration.
///
/// # Errors
/// The key, and what is wrong with it.
pub fn law(config: &Config, path: &Path, mode: Mode) -> Result<LawSettings, String> {
    let PolicyConfig { name, settings, bounds, compare } = config.policy.clone();
    let layout = layout(config).map_err(|error| format!("{}: {error}", error.key))?;
    let model = config.power.model.as_deref();
    let power_model = model.map(|model| power_model(model, path)).transpose()?;
    let (name, policy) = (config.name.clone(), (name, settings));
    let frequency = config.frequency.as_ref().map(|frequency| FrequencySettings {
        cores: frequency.cores.clone(),
        state: frequency.state.clone(),
    });
    let price = config.power.price;
    Ok(LawSettings {
        name,
        policy,
        bounds,
        mode,
        compare,
        safety: config.safety.clone(),
        layout,
        frequency,
        power_model,
        price,
    })
}

/// What the target is to do.
#[must_use]
pub fn settings(config: &Config) -> Settings {
    let volume = |export: &ExportConfig| Volume {
        export: export.name.clone(),
        devices: export.devices.clone(),
        is_read_only: export.read_only,
        open: OpenOptions {
            map_bytes_max: config.memory.map.0 as u64,
            accept_missing: export.accept_missing,
            accept_loss: export.accept_loss,
        },
    };
    Settings {
        volumes: config.exports.iter().map(volume).collect(),
        listen: config.listen.clone(),
        reactors: config.reactors,
        cores: Vec::new(),
        idle: config.idle,
        pace: Pace { scrub_period: config.scrub.period.0, device_depth: config.device_depth },
        memory: VolumeMemory {
            cache_bytes: config.memory.cache.0 as u64,
            write_buffer_bytes: config.memory.write_buffer.0 as u64,
        },
        tls: config.tls.as_ref().map(|tls| {
            let files = Files {
                certificate: tls.certificate.clone(),
                key: tls.key.clone(),
                clients: tls.clients.clone(),
            };
            (files, tls.required)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const WHOLE: &str = r#"
listen = ["unix:/run/n.sock", "systemd"]
reactors = 2
idle = "poll"
memory = { map = "1 GiB", cache = "64 MiB" }
scrub = { period = "30 d" }
tls = { certificate = "/etc/c.pem", key = "/etc/k.pem" }
safety = { dwell = "2 s" }

[[export]]
name = "disk"
devices = ["/dev/sdb", "/dev/sdc"]
read_only = true
accept_missing = true

[[export]]
name = ""
devices = ["/srv/disk.vol"]
accept_loss = true
"#;

    #[test]
    fn what_a_file_says_is_asked_of_the_server_and_of_the_law() {
        let config = Config::from_toml(WHOLE).unwrap();
        let settings = settings(&config);
        assert_eq!(settings.pace.scrub_period, Some(Duration::from_secs(30 * 86_400)));
        assert_eq!(settings.memory.cache_bytes, 64 << 20);
        let (files, is_required) = settings.tls.unwrap();
        assert!(is_required && files.clients.is_none() && files.key.ends_with("k.pem"));
        let [first, second] = &settings.volumes[..] else { panic!("two exports") };
        assert!(first.is_read_only && first.open.accept_missing && !first.open.accept_loss);
        assert!(!second.is_read_only && second.open.accept_loss);
        assert_eq!(second.open.map_bytes_max, 1 << 30);
        let law = law(&config, Path::new("/etc/t.toml"), Mode::Run).unwrap();
        assert_eq!(law.safety, config.safety);
        assert!(!law.layout.idle_cores_sleep, "a reactor that polls never sleeps");
    }
}
