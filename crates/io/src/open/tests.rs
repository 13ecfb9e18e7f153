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
