use super::*;
use crate::client::tests::met;

/// Set attributes of 4000 B each until one is refused; how many were taken, and what was told.
fn fill(session: &mut Session, which: Option<usize>) -> (usize, String) {
    let set = |number: &usize| {
        let value = Value::Text("x".repeat(4000));
        session.attribute(which, &format!("a{number}"), value).err().map(|error| (*number, error))
    };
    match (0..64).collect::<Vec<_>>().iter().find_map(set) {
        Some((number, Error::Input(told))) => (number, told),
        other => panic!("{other:?}"),
    }
}

#[test]
fn attributes_that_no_list_has_room_for_are_refused_by_their_names_and_the_step_goes_on() {
    let (client, writer) = met(4096);
    let mut session = Session::new(Box::new(client), false);
    let which = session.declare("u", Type::Int8, &[16], None).unwrap();
    session.begin_step(1).unwrap();
    for (variable, of) in [(Some(which), "of variable u"), (None, "of this step")] {
        let (taken, told) = fill(&mut session, variable);
        assert_eq!(taken, 7);
        assert!(told.starts_with(&format!("attribute \"a7\": with it, the attributes {of} take ")));
        assert!(told.contains("; allowed: 31744 B"), "{told}");
        // A smaller one has room.
        session.attribute(variable, "a7", Value::Number(1.0)).unwrap();
    }
    session.allocate(which).unwrap();
    #[allow(unsafe_code)]
    // SAFETY: nothing was put.
    let ended = unsafe { session.end_step(&mut Ending::default()) };
    assert_eq!(ended, Ok(true));
    assert_eq!(writer.slot.posted(), 1);
}

/// It was dropped without a word, and its bytes counted as written.
#[test]
fn a_step_that_is_not_ended_has_failed_if_anything_was_put_into_it() {
    for put in [false, true] {
        let (client, writer) = met(4096);
        let end = std::thread::spawn(move || writer.let_go());
        let mut session = Session::new(Box::new(client), false);
        let which = session.declare("u", Type::Int8, &[16], None).unwrap();
        session.begin_step(7).unwrap();
        if put {
            session.allocate(which).unwrap();
        }
        let closed = session.close();
        end.join().unwrap();
        let report = session.report();
        assert_eq!((report.bytes, report.steps), (0, 0));
        match (put, closed) {
            (false, Ok(())) => assert!(report.failed.is_empty()),
            (true, Err(Error::StepFailed(told))) => {
                assert_eq!(told, "step 7: was not ended: what was put into it is left out");
                assert_eq!(report.failed, [7]);
            }
            (_, other) => panic!("{other:?}"),
        }
    }
}

/// It was told that a step had not ended, as of a mistake in its own calls.
#[test]
fn a_program_that_goes_on_without_its_writer_is_told_of_it() {
    let (client, writer) = met(4096);
    let (tell, told) = std::sync::mpsc::channel();
    client.watch(move || tell.send(()).unwrap()).unwrap();
    let mut session = Session::new(Box::new(client), false);
    session.begin_step(1).unwrap();
    assert!(matches!(session.begin_step(2), Err(Error::Input(_))));
    drop(writer);
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(session.begin_step(2), Err(Error::Host("the writer has died".to_owned())));
}
