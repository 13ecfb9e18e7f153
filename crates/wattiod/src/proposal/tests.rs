use super::*;
use crate::doctor::examine;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use tempfile::TempDir;
use wattio_host::config::DaemonConfig;
use wattio_host::sources::LatencyConfig;

const PAGE: &str = "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.001\"} 3\n\
                    etcd_disk_wal_fsync_duration_seconds_bucket{le=\"+Inf\"} 4\n\
                    etcd_disk_wal_fsync_duration_seconds_sum 0.004\n\
                    etcd_disk_wal_fsync_duration_seconds_count 4\n";

/// A host of files: four cores, one disk.
struct Host(TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        host.file("/sys/devices/system/cpu/present", "0-3");
        host.file("/sys/devices/system/cpu/online", "0-3");
        host.disk("sda", "2000");
        host
    }

    fn root(&self) -> Root {
        Root::new(self.0.path())
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.root().path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn disk(&self, name: &str, size: &str) {
        self.file(&format!("/sys/block/{name}/size"), size);
        let counted = self.root().read("/proc/diskstats").unwrap_or_default();
        let line = format!("   8       0 {name} 9 0 72 9 9 0 72 9 0 9 18 0 0 0 0 0 0");
        self.file("/proc/diskstats", &format!("{counted}\n{line}\n"));
    }

    /// A process with a name, its words and its control group.
    fn process(&self, pid: u32, name: &str, words: &[&str], cgroup: &str) {
        let stat = format!("{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0");
        for place in [format!("/proc/{pid}"), format!("/proc/{pid}/task/{pid}")] {
            self.file(&format!("{place}/stat"), &stat);
            self.file(&format!("{place}/comm"), &format!("{name}\n"));
            self.file(&format!("{place}/status"), "Cpus_allowed_list:\t1-9\n");
        }
        let words: String = words.iter().map(|word| format!("{word}\0")).collect();
        self.file(&format!("/proc/{pid}/cmdline"), &words);
        self.file(&format!("/proc/{pid}/cgroup"), &format!("0::{cgroup}\n"));
    }

    /// A control group whose cores can be set.
    fn cpuset(&self, cgroup: &str) {
        self.file("/proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        self.file(&format!("/sys/fs/cgroup{cgroup}/cpuset.cpus"), "");
    }

    fn propose(&self, service: Option<&str>) -> (DaemonConfig, String) {
        let proposal = propose(&self.root(), service).unwrap();
        let config = proposal.config.unwrap_or_else(|| panic!("{:?}", proposal.findings));
        (DaemonConfig::from_toml(&config).unwrap(), config)
    }
}

/// A server that shows its page to whoever asks, until the test ends; its address.
fn page(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = move |mut stream: TcpStream| {
        let _ = stream.read(&mut [0; 4096]);
        let length = text.len();
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}");
    };
    std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
    address.to_string()
}

#[test]
fn a_server_with_a_page_is_read_where_it_listens() {
    let (host, place) = (Host::new(), page(PAGE));
    let urls = format!("--listen-client-urls=http://{place}");
    host.process(7, "nginx", &["nginx"], "/web");
    host.process(9, "etcd", &["etcd", &urls], "/system.slice/etcd.service");
    host.cpuset("/system.slice/etcd.service");
    let (config, text) = host.propose(None);
    let Some(LatencyConfig::Prometheus(latency)) = &config.latency else { panic!("{text}") };
    assert_eq!(latency.url, format!("http://{place}/metrics"));
    assert_eq!((config.name.as_str(), config.groups[0].cores.as_str()), ("etcd", "1-3"));
    assert_eq!(config.groups[0].cgroup.as_deref(), Some("/system.slice/etcd.service"));
    assert_eq!(config.knobs[0].name(), "cpu.cpuset");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn a_page_that_lacks_the_metric_gives_way_to_the_devices() {
    let (host, place) = (Host::new(), page("up 1\n"));
    host.process(9, "etcd", &["etcd", &format!("--listen-metrics-urls=http://{place}")], "/");
    let proposal = propose(&host.root(), None).unwrap();
    let config = proposal.config.unwrap();
    assert!(config.contains("kind = \"diskstats\"") && config.contains("is NOT in it"), "{config}");
    let tried = proposal.findings.iter().find(|finding| finding.what.contains(&place)).unwrap();
    assert!(!tried.ok, "{tried:?}");
}

/// Releases differ: the page of version 3 is asked for first.
#[test]
fn minio_is_read_by_the_page_that_it_has() {
    const V3: &str = "# TYPE minio_api_requests_ttfb_seconds_distribution counter\n\
        minio_api_requests_ttfb_seconds_distribution{le=\"+Inf\",name=\"GetObject\",type=\"s3\"} 9\n\
        minio_api_requests_ttfb_seconds_distribution{le=\"0.050\",name=\"GetObject\",type=\"s3\"} 8\n\
        minio_api_requests_ttfb_seconds_distribution{le=\"+Inf\",name=\"PutObject\",type=\"s3\"} 2\n";
    const V2: &str = "# TYPE minio_s3_requests_ttfb_seconds_distribution gauge\n\
        minio_s3_requests_ttfb_seconds_distribution{api=\"getobject\",le=\"0.05\"} 8\n\
        minio_s3_requests_ttfb_seconds_distribution{api=\"getobject\",le=\"+Inf\"} 9\n";
    for (text, path, label) in [
        (V3, "/minio/metrics/v3/api/requests", ("name", "GetObject")),
        (V2, "/minio/v2/metrics/cluster", ("api", "getobject")),
    ] {
        let (host, place) = (Host::new(), page(text));
        host.process(9, "minio", &["minio", "server", "--address", &place], "/");
        let (config, text) = host.propose(None);
        let Some(LatencyConfig::Prometheus(latency)) = &config.latency else { panic!("{text}") };
        assert_eq!(latency.url, format!("http://{place}{path}"));
        assert_eq!(latency.labels[label.0], label.1);
    }
}

#[test]
fn a_control_group_that_others_share_is_left_alone() {
    let host = Host::new();
    host.process(7, "smbd", &["smbd"], "/shared");
    host.process(8, "smbd", &["smbd"], "/shared");
    host.cpuset("/shared");
    let (alone, _) = host.propose(None);
    assert_eq!(alone.groups[0].cgroup.as_deref(), Some("/shared"));
    host.process(9, "sshd", &["sshd"], "/shared");
    let (shared, text) = host.propose(None);
    assert_eq!((shared.groups[0].cgroup.as_ref(), shared.knobs[0].name()), (None, "cpu.affinity"));
    assert!(text.contains("comm = \"smbd\""), "{text}");
}

#[test]
fn an_array_stands_for_its_disks() {
    let host = Host::new();
    for (name, size) in [("sdb", "0"), ("sdc", "8"), ("sdd", "8"), ("md0", "8"), ("loop0", "8")] {
        host.disk(name, size);
    }
    host.file("/sys/block/sdc/sdc1/size", "8");
    for part in ["sdc1", "sdd"] {
        host.file(&format!("/sys/block/md0/slaves/{part}/size"), "8");
    }
    let (config, _) = host.propose(None);
    let Some(LatencyConfig::Diskstats(latency)) = &config.latency else { panic!("{config:?}") };
    assert_eq!(latency.devices, ["sda", "md0"]);
    assert_eq!((config.name.as_str(), config.groups[0].cores.as_str()), ("storage", "0-3"));
    assert!(config.knobs.is_empty());
}

/// A cache and its disk, and both paths to a drive, were proposed beside the device that is made of
/// them: each request counted twice.
#[test]
fn what_a_device_is_made_of_does_not_count_beside_it() {
    let host = Host::new();
    for name in ["bcache0", "dm-0", "dm-1", "md0", "nvme0c0n1", "nvme0n1", "nvme1n1", "sdb", "sdc"]
    {
        host.disk(name, "8");
    }
    host.file("/sys/block/nvme0c0n1/hidden", "1\n");
    host.file("/sys/block/nvme0n1/hidden", "0\n");
    for (name, part) in [
        ("bcache0", "sda"),
        ("bcache0", "nvme1n1"),
        // An array of encrypted disks, and a volume on the drive.
        ("md0", "dm-0"),
        ("dm-0", "sdb"),
        ("dm-1", "nvme0n1"),
    ] {
        host.file(&format!("/sys/block/{name}/slaves/{part}/size"), "8");
    }
    let (config, _) = host.propose(None);
    let Some(LatencyConfig::Diskstats(latency)) = &config.latency else { panic!("{config:?}") };
    assert_eq!(latency.devices, ["nvme0n1", "sdc", "bcache0", "md0"]);
    let told = examine(&host.root(), None).into_iter().find(|told| told.what == "source diskstats");
    assert!(told.is_some_and(|told| told.ok && !told.text.contains("nvme0c0n1")));
}

#[test]
fn any_process_can_be_named() {
    let host = Host::new();
    host.process(7, "etcd", &["etcd"], "/");
    host.process(8, "myserver", &["myserver"], "/");
    let (config, _) = host.propose(Some("myserver"));
    assert_eq!(config.name, "myserver");
    host.process(9, "nginx", &["nginx"], "/");
    let proposal = propose(&host.root(), Some("nginx")).unwrap();
    assert!(proposal.config.unwrap().contains("diskstats"));
    assert!(proposal.findings.iter().any(|finding| finding.text.contains("example nginx.toml")));
    let error = propose(&host.root(), Some("postgresql")).unwrap_err().to_string();
    assert!(error.contains("no process of that name runs") && error.contains("etcd"), "{error}");
}

#[test]
fn a_meter_and_the_frequency_are_taken_where_they_are() {
    let host = Host::new();
    host.process(8, "smbd", &["smbd"], "/");
    for (name, value) in [
        ("related_cpus", "1-3"),
        ("cpuinfo_min_freq", "800000"),
        ("cpuinfo_max_freq", "3500000"),
        ("scaling_min_freq", "800000"),
        ("scaling_max_freq", "3500000"),
        ("scaling_governor", "schedutil"),
    ] {
        host.file(&format!("/sys/devices/system/cpu/cpufreq/policy0/{name}"), value);
    }
    for (name, value) in [("name", "package-0"), ("energy_uj", "5"), ("max_energy_range_uj", "99")]
    {
        host.file(&format!("/sys/class/powercap/intel-rapl:0/{name}"), value);
    }
    let (config, text) = host.propose(None);
    let names: Vec<_> = config.knobs.iter().map(wattio_host::knobs::KnobConfig::name).collect();
    assert_eq!(names, ["cpu.frequency"]);
    assert!(text.contains("#kind = \"cpu.affinity\""), "{text}");
    assert!(text.contains("meter = \"rapl:"), "{text}");
}

#[test]
fn each_kind_of_core_gets_a_group() {
    let host = Host::new();
    host.file("/sys/devices/cpu_core/cpus", "0-1");
    host.file("/sys/devices/cpu_atom/cpus", "2-3");
    host.process(8, "smbd", &["smbd"], "/");
    let (config, text) = host.propose(None);
    let groups: Vec<_> = config.groups.iter().map(|group| (&*group.name, &*group.cores)).collect();
    assert_eq!(groups, [("smbd-performance", "1"), ("smbd-efficiency", "2-3")], "{text}");
    // A process would be in the first group alone.
    assert!(config.knobs.is_empty(), "{text}");
}

#[test]
fn a_server_that_tells_nothing_gets_no_proposal() {
    let host = Host::new();
    host.process(8, "reactor_0", &["spdk_tgt"], "/");
    let proposal = propose(&host.root(), None).unwrap();
    assert!(proposal.config.is_none());
    assert!(proposal.findings.iter().any(|finding| finding.text.contains("spdk.toml")));
}

#[test]
fn texts_of_the_host_stay_texts() {
    for text in ["a\"b", "a\\b", "\u{7f}\u{1b}[2J", "]\n[latency]", "ä"] {
        let line = format!("value = {}", quoted(text));
        let table: BTreeMap<String, String> = wattio_plant::read_toml(&line).unwrap();
        assert_eq!(table["value"], text);
    }
}
