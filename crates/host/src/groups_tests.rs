use super::*;
use crate::Root;
use std::fs;

/// Eight processors: node 0 has 0,1 and 4,5, node 1 has 2,3 and 6,7; cpu N and N + 4 share a core.
/// Processor 8 is off.
fn topology() -> Topology {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(folder.path());
    let write = |path: String, text: &str| {
        let path = root.path(&path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("/sys/devices/system/cpu/present".into(), "0-8\n");
    write("/sys/devices/system/cpu/online".into(), "0-7\n");
    for cpu in 0..8 {
        let list = format!("{},{}", cpu % 4, cpu % 4 + 4);
        write(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), &list);
    }
    write("/sys/devices/system/node/node0/cpulist".into(), "0-1,4-5");
    write("/sys/devices/system/node/node1/cpulist".into(), "2-3,6-7");
    Topology::read(&root).unwrap()
}

fn group(name: &str, cores: &str) -> GroupConfig {
    GroupConfig {
        name: name.to_owned(),
        cores: cores.to_owned(),
        cores_min: 1,
        cgroup: None,
        processes: None,
        queue: None,
    }
}

#[test]
fn whole_cores_and_whole_nodes_leave_together() {
    let groups = resolve(&[group("all", "0-7")], &topology()).unwrap();
    assert_eq!(groups[0].order, [0, 4, 1, 5, 2, 6, 3, 7]);
}

#[test]
fn what_cannot_be_a_group_is_refused_with_what_there_is() {
    let refused = |groups: &[GroupConfig], says: &str| {
        let message = resolve(groups, &topology()).unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
    };
    refused(&[group("a", "0-9")], "9 are not there; this host has 0-8");
    refused(&[group("a", "7-8")], "8 are off");
    refused(&[group("a", "")], "this host has 0-7");
    refused(&[group("a", "x")], "group \"a\", cores");
    refused(&[group("a", "0-3"), group("b", "3-5")], "3 belong to group \"a\"");
    refused(&[group("a", "0"), group("a", "1")], "a name of its own");
    refused(&[GroupConfig { cores_min: 3, ..group("a", "0-1") }], "between 1 and the group's 2");
    refused(&[GroupConfig { cores_min: 0, ..group("a", "0-1") }], "between 1 and");
    for path in ["etcd", "/", "/a/../b", "/sys/fs/cgroup/a", "", "/a//b"] {
        let config = GroupConfig { cgroup: Some(path.to_owned()), ..group("a", "0") };
        refused(&[config], "no path of a control group");
    }
}
