use super::*;
use proptest::prelude::*;
use rustix::process::getuid;

/// A pair that makes and removes a file, run as whoever runs the test.
fn pair(folder: &std::path::Path, tells: bool) -> (Root, CommandConfig) {
    let root = Root::new(folder);
    std::fs::create_dir_all(root.path("/etc")).unwrap();
    let (user, group) = (getuid().as_raw(), rustix::process::getgid().as_raw());
    let line = format!("daemon:x:1:1::/:/bin/false\nme:x:{user}:{group}::/:/bin/sh\n");
    std::fs::write(root.path("/etc/passwd"), line).unwrap();
    let file = folder.join("paused").to_str().unwrap().to_owned();
    let argv = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let config = CommandConfig {
        name: "scrub".to_owned(),
        pause: argv(&["/usr/bin/touch", &file]),
        resume: argv(&["/bin/rm", "-f", &file]),
        is_paused: tells.then(|| argv(&["/usr/bin/test", "-e", &file])),
        user: "me".to_owned(),
        timeout: Seconds(30.0),
    };
    (root, config)
}

#[test]
fn work_is_paused_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (root, config) = pair(folder.path(), true);
    let mut commands = Commands::new(&root, &[config]).unwrap();
    for value in [RUNNING, PAUSED, PAUSED, RUNNING, RUNNING] {
        commands.write("scrub", value, &Budget::default()).unwrap();
        assert_eq!(commands.read("scrub", &Budget::default()).unwrap(), value);
        assert_eq!(folder.path().join("paused").exists(), value == PAUSED);
    }
    assert!(commands.same("scrub", RUNNING, RUNNING));
}

#[test]
fn a_state_that_nobody_knows_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let (root, config) = pair(folder.path(), false);
    let mut commands = Commands::new(&root, &[config]).unwrap();
    assert_eq!(commands.read("scrub", &Budget::default()).unwrap(), RUNNING);
    assert!(!commands.same("scrub", RUNNING, RUNNING));
    commands.write("scrub", RUNNING, &Budget::default()).unwrap();
    assert!(commands.same("scrub", RUNNING, RUNNING));
}

#[test]
fn a_command_that_hangs_is_ended_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let (root, mut config) = pair(folder.path(), false);
    config.pause = ["/bin/sh", "-c", "/bin/sleep 1000 & wait"].map(str::to_owned).to_vec();
    config.timeout = Seconds(0.05);
    let mut commands = Commands::new(&root, &[config]).unwrap();
    let Err(AccessError::Refused(message)) = commands.write("scrub", PAUSED, &Budget::default())
    else {
        panic!()
    };
    assert!(message.contains("killed after 50 ms"), "{message}");
    assert_eq!(commands.read("scrub", &Budget::default()).unwrap(), RUNNING);
}

/// A command that hung when queried, when acting and when queried again held the loop for three
/// times its timeout.
#[test]
fn the_commands_of_one_tick_share_their_time() {
    let folder = tempfile::tempdir().unwrap();
    let (root, mut config) = pair(folder.path(), true);
    config.is_paused = Some(["/bin/sleep", "1000"].map(str::to_owned).to_vec());
    config.timeout = Seconds(0.05);
    let mut commands = Commands::new(&root, &[config]).unwrap();
    let message = |problem| match problem {
        AccessError::Refused(message) => message,
        other => panic!("{other:?}"),
    };
    let budget = Budget::default();
    for _tick in 0..2 {
        budget.set(Some(commands.timeout()));
        let hung = message(commands.read("scrub", &budget).unwrap_err());
        assert!(hung.contains("killed after 50 ms"), "{hung}");
        for _ in 0..2 {
            let late = message(commands.write("scrub", PAUSED, &budget).unwrap_err());
            assert!(late.contains("not started"), "{late}");
        }
    }
    budget.set(None);
    for _restored in 0..2 {
        let hung = message(commands.read("scrub", &budget).unwrap_err());
        assert!(hung.contains("killed after 50 ms"), "{hung}");
    }
}

#[test]
fn only_what_is_configured_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (root, config) = pair(folder.path(), false);
    let refused = |change: &dyn Fn(&mut CommandConfig), says: &str| {
        let mut config = config.clone();
        change(&mut config);
        let message = Commands::new(&root, &[config]).unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
    };
    refused(&|config| config.pause = vec!["touch".to_owned()], "absolute path");
    refused(&|config| config.resume.clear(), "absolute path");
    refused(&|config| config.user = "nobody else".to_owned(), "not in /etc/passwd");
    refused(&|config| config.timeout = Seconds(f64::NAN), "timeout");
    let mut commands = Commands::new(&root, std::slice::from_ref(&config)).unwrap();
    assert!(matches!(
        commands.write("scrub", "x; reboot", &Budget::default()),
        Err(AccessError::Refused(..))
    ));
    assert!(matches!(
        commands.write("other", PAUSED, &Budget::default()),
        Err(AccessError::Refused(..))
    ));
    assert!(Commands::new(&root, &[config.clone(), config.clone()]).is_err());
}

#[test]
#[ignore = "needs root: make test-system"]
fn the_other_user_is_taken_when_root() {
    if !getuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (root, mut config) = pair(folder.path(), false);
    config.user = "daemon".to_owned();
    config.pause =
        ["/bin/sh", "-c", "test $(id -u):$(id -g):$(id -G) = 1:1:1"].map(str::to_owned).to_vec();
    Commands::new(&root, &[config]).unwrap().write("scrub", PAUSED, &Budget::default()).unwrap();
}

proptest! {
    #[test]
    fn no_text_panics(users: String, name: String) {
        let _ = user(&users, &name);
    }
}
