//! Which reactor has which volume.
//!
//! A volume that moves belongs to no reactor for a while: requests to it are held until its new
//! reactor reports that it has it. Because no request is in transit to a volume that leaves,
//! nothing has to be forwarded, and requests of one connection arrive in the order in which they
//! were made.

use crate::messages::ToVolume;

#[derive(Debug)]
enum Route {
    /// With this reactor.
    At(usize),
    /// Between two; what it was asked since.
    Held(Vec<ToVolume>),
}

/// Where each volume is, by the number of its export.
#[derive(Debug)]
pub(super) struct Routes(Vec<Route>);

impl Routes {
    pub(super) fn new(reactors: &[usize]) -> Self {
        Self(reactors.iter().map(|&reactor| Route::At(reactor)).collect())
    }

    /// Whom to ask, and what; nobody while the volume moves.
    pub(super) fn send(&mut self, to: ToVolume) -> Option<(usize, ToVolume)> {
        match self.0.get_mut(to.volume)? {
            Route::At(reactor) => Some((*reactor, to)),
            Route::Held(held) => {
                held.push(to);
                None
            }
        }
    }

    /// Whether a volume is with this reactor.
    pub(super) fn is_at(&self, volume: usize, reactor: usize) -> bool {
        matches!(self.0.get(volume), Some(Route::At(at)) if *at == reactor)
    }

    /// Keeps what the volume is asked from now on.
    pub(super) fn hold(&mut self, volume: usize) {
        if let Some(route @ Route::At(_)) = self.0.get_mut(volume) {
            *route = Route::Held(Vec::new());
        }
    }

    /// The volume is with this reactor; what it was asked meanwhile.
    pub(super) fn found(&mut self, volume: usize, reactor: usize) -> Vec<ToVolume> {
        let Some(route) = self.0.get_mut(volume) else { return Vec::new() };
        match std::mem::replace(route, Route::At(reactor)) {
            Route::At(_) => Vec::new(),
            Route::Held(held) => held,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Ask, Tag};

    fn ask(volume: usize, number: usize) -> ToVolume {
        ToVolume { volume, tag: Tag::new(0, number), ask: Ask::Flush }
    }

    #[test]
    fn what_is_asked_of_a_volume_that_moves_is_kept_in_order() {
        let mut routes = Routes::new(&[0, 1]);
        let to = |sent: Option<(usize, ToVolume)>| sent.map(|(reactor, _)| reactor);
        assert_eq!(to(routes.send(ask(1, 0))), Some(1));
        routes.hold(1);
        routes.hold(1);
        assert!((1..4).all(|number| routes.send(ask(1, number)).is_none()));
        assert_eq!(to(routes.send(ask(0, 4))), Some(0), "the other one stays");
        assert!(!routes.is_at(1, 1));
        let held = routes.found(1, 3);
        assert_eq!(held.iter().map(|to| to.tag.number()).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(routes.is_at(1, 3) && routes.found(1, 3).is_empty());
        assert_eq!(to(routes.send(ask(1, 5))), Some(3));
        assert!(routes.send(ask(2, 6)).is_none(), "there is no such volume");
    }
}
