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
fn a_rank_that_there_cannot_be_is_told_with_what_is_allowed() {
    for (rank, ranks, told) in [
        (0, 0, "ranks = 0; allowed: 1 or more"),
        (0, -3, "ranks = -3; allowed: 1 or more"),
        (-1, 2, "rank = -1 of 2; allowed: 0 to 1"),
        (2, 2, "rank = 2 of 2; allowed: 0 to 1"),
    ] {
        assert_eq!(rank_of(rank, ranks), Err(Error::Input(told.to_owned())));
    }
    assert_eq!(rank_of(1, 2), Ok((1, 2)));
}

/// The program went on, and the error was "No such file or directory" after a minute.
#[test]
fn a_program_that_does_not_serve_is_named_and_ended() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (program, started) = (folder.path().join("program"), folder.path().join("started"));
    let script = format!(
        "#!/bin/sh\necho $$ > {0}.new && mv {0}.new {0}\nsleep 600 & wait\n",
        started.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("socket");
    let config = Config { program: Some(program.clone()), ..Config::default() };
    let start = || PathWriter::start(&path, &folder.path().join("none"), &config, 1, None);
    // It has begun before it is given up.
    let late = Instant::now() + crate::client::tests::HANGS;
    let connect = || {
        while !started.exists() && Instant::now() < late {
            std::thread::yield_now();
        }
        Err::<(), Error>(Error::Host("nobody is there".to_owned()))
    };
    let patience = Patience { quiet: Duration::ZERO, all: Duration::ZERO };
    let told = start_and_connect(&connect, &path, &start, &patience).unwrap_err().to_string();
    assert!(told.contains(&program.display().to_string()), "{told}");
    assert!(told.ends_with("is ended: nobody is there"), "{told}");
    let process = std::fs::read_to_string(&started).unwrap();
    assert!(!Path::new("/proc").join(process.trim()).exists());
}
