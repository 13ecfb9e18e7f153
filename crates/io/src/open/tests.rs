use super::*;
use crate::peers::Alone;

#[test]
fn all_ranks_are_told_of_the_folder_that_rank_0_means() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hpcio.toml");
    std::fs::write(&file, "[hpcio]\noutput = \"out/../dumps\"\n").unwrap();
    let found = plan(&Alone, Ok(file)).unwrap().config.output;
    assert_eq!(found, std::env::current_dir().unwrap().join("out/../dumps"));
}

#[test]
fn dedicated_nodes_are_counted_in_all_and_shared_by_those_that_compute() {
    for (nodes, dedicated, found) in [(2, 1, 1), (8, 1, 7), (8, 2, 3), (8, 3, 2), (9, 4, 2)] {
        let ranks: Vec<usize> = (0..3 * nodes).map(|rank| rank / 3).collect();
        assert_eq!(ratio(&ranks, dedicated), Ok(found), "{dedicated} of {nodes}");
    }
    for (nodes, count) in [(&[][..], 0), (&[0, 0], 1), (&[0, 1], 2)] {
        let told = format!("<dedicated>: of {count} nodes, 2 leave none to compute");
        assert_eq!(ratio(nodes, 2), Err(Error::Input(told)));
    }
}
