use super::*;
use crate::block::{Type, Value, Variable, set_attribute};
use crate::peers::Alone;
use std::net::TcpListener;

/// The next thing that a rank says.
pub(crate) fn heard(rank: &mut Frames) -> FromRank {
    loop {
        if let Some(said) = rank.hear().unwrap() {
            return said;
        }
        std::thread::yield_now();
    }
}

/// A variable of so large attributes as there may be.
fn loaded(name: &str) -> Declared {
    let mut variable = Variable::new(name, Type::Int8, &[1], None).unwrap();
    for number in 0..64 {
        let value = Value::Text("x".repeat(4096));
        set_attribute(&mut variable.attributes, &format!("a{number}"), value).unwrap();
    }
    Declared::new(variable)
}

#[test]
fn blocks_of_large_attributes_are_told_of_in_several_messages() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let relay = std::thread::spawn(move || {
        let mut rank = Frames::new(listener.accept().unwrap().0).unwrap();
        assert!(matches!(heard(&mut rank), FromRank::Hello { .. }));
        rank.say(&ToRank::Welcome { share: 4096, attributes_max: 1 << 20 }).unwrap();
        let mut told: Vec<(usize, bool, bool)> = Vec::new();
        while told.last().is_none_or(|&(_, end, _)| !end) {
            let FromRank::Post { end, blocks, attributes, .. } = heard(&mut rank) else { panic!() };
            rank.say(&ToRank::Send(blocks.len() as u32)).unwrap();
            told.push((blocks.len(), end, attributes.len() > 1));
        }
        told
    });
    let mut remote = Remote::connect(&address, 0, "token", Arc::new(Alone)).unwrap();
    let declared: Vec<Declared> = (0..7).map(|number| loaded(&format!("u{number}"))).collect();
    let mut open = Open::default();
    for variable in 0..declared.len() {
        let data = remote.reserve(&mut open, &declared, variable, 3).unwrap().unwrap();
        open.placed.push(Placed { variable, data, committed: true });
    }
    let time = vec![("time".to_owned(), Value::Number(0.5))];
    let part = Part { declared: &declared, step: 3, end: true, attributes: &time };
    let late = Some(Instant::now() + crate::client::tests::HANGS);
    loop {
        let nap = remote.nap();
        if remote.post(&mut open, part).unwrap() {
            break;
        }
        assert_eq!(nap.sleep(late), Ok(true));
    }
    assert_eq!(relay.join().unwrap(), [(3, false, false), (3, false, false), (1, true, true)]);
}

/// What another thread hears of is no news any more on the stream that the sleeper looks at.
#[test]
fn who_sleeps_beside_is_woken_by_what_comes_and_by_what_others_have_heard() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let relay = std::thread::spawn(move || {
        let mut rank = Frames::new(listener.accept().unwrap().0).unwrap();
        assert!(matches!(heard(&mut rank), FromRank::Hello { .. }));
        rank.say(&ToRank::Welcome { share: 4096, attributes_max: 1 << 20 }).unwrap();
        rank
    });
    let mut remote = Remote::connect(&address, 0, "token", Arc::new(Alone)).unwrap();
    let relay = relay.join().unwrap();
    let late = Some(Instant::now() + crate::client::tests::HANGS);
    // Nobody has come, and its time is over.
    assert_eq!(remote.nap().sleep(Some(Instant::now())), Ok(false));
    // It comes over the stream.
    let nap = remote.nap();
    relay.say(&ToRank::Settled(false, None)).unwrap();
    assert_eq!(nap.sleep(late), Ok(true));
    // Others have heard it before, or while this one sleeps.
    let nap = remote.nap();
    assert_eq!(remote.settled(), Ok(1));
    assert_eq!(nap.sleep(late), Ok(true));
    let nap = remote.nap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(move || nap.sleep(late));
        remote.take(ToRank::Settled(true, None));
        assert_eq!(sleeper.join().unwrap(), Ok(true));
    });
    assert_eq!(remote.settled(), Ok(2));
}
