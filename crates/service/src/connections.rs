//! Who is connected to the page, and who has to go when there is no place left.

use crate::write_timeout::Served;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

/// How many connections are open; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;
/// How many of one network: a browser has six, and a proxy that asks for many users some more.
const CONNECTIONS_OF_PEER_MAX: usize = 32;
/// How long nobody who was given an answer goes for somebody else's sake.
const GRACE: Duration = Duration::from_secs(1);
/// How often it is looked whether somebody went.
const LOOK: Duration = Duration::from_millis(20);

/// The open connections. Where there are as many as may be, whoever comes gets the place of the one that
/// was given its last whole answer the longest ago: who never reads keeps nobody out.
#[derive(Default)]
pub(super) struct Connections(Vec<Held>);

struct Held {
    network: IpAddr,
    served: Served,
    task: AbortHandle,
}

impl Connections {
    /// Waits until there is a place for one more connection of an address. Where its network has
    /// as many as it may, it is one of those that goes, at once.
    pub async fn make_room(&mut self, address: IpAddr) {
        let network = network(address);
        loop {
            self.0.retain(|held| !held.task.is_finished());
            let of_network = self.0.iter().filter(|held| held.network == network).count();
            let among = (of_network >= CONNECTIONS_OF_PEER_MAX).then_some(network);
            if among.is_none() && self.0.len() < CONNECTIONS_MAX {
                return;
            }
            let mine = |held: &Held| among.is_none_or(|network| held.network == network);
            let connections = self.0.iter().enumerate().filter(|(_, held)| mine(held));
            let Some((at, since)) = connections
                .map(|(at, held)| (at, held.served.last()))
                .min_by_key(|&(_, since)| since)
            else {
                return;
            };
            if among.is_some() || Instant::now().duration_since(since) >= GRACE {
                self.0.swap_remove(at).task.abort();
            } else {
                sleep(LOOK).await;
            }
        }
    }

    /// Takes a place.
    pub fn enter(&mut self, address: IpAddr, served: Served, task: AbortHandle) {
        self.0.push(Held { network: network(address), served, task });
    }
}

/// What one host has all of: an address of version 4, or 64 bits of version 6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_timeout::in_no_time;

    const LONG: Duration = Duration::from_secs(3600);

    /// Somebody who does nothing for an hour.
    async fn come(connections: &mut Connections, address: IpAddr) -> AbortHandle {
        connections.make_room(address).await;
        let task = tokio::spawn(sleep(LONG)).abort_handle();
        connections.enter(address, Served::now(), task.clone());
        sleep(Duration::from_millis(1)).await;
        task
    }

    fn v4(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn one_network_does_not_take_all_places() {
        in_no_time(async {
            let mut connections = Connections::default();
            let other = come(&mut connections, v4(2)).await;
            for _ in 0..100 {
                come(&mut connections, v4(1)).await;
            }
            let of_one = connections.0.iter().filter(|held| held.network == v4(1)).count();
            assert_eq!(of_one, CONNECTIONS_OF_PEER_MAX);
            assert!(!other.is_finished());
            let host = |low: u64| IpAddr::V6(Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(low)));
            for low in 0..100 {
                come(&mut connections, host(low)).await;
            }
            assert_eq!(connections.0.len(), CONNECTIONS_MAX);
            let of_host = connections.0.iter().filter(|held| held.network.is_ipv6()).count();
            assert_eq!(of_host, CONNECTIONS_OF_PEER_MAX);
        });
    }

    #[test]
    fn who_was_served_the_longest_ago_goes_first_and_nobody_within_the_grace() {
        in_no_time(async {
            let mut connections = Connections::default();
            let mut all = Vec::new();
            for at in 0..CONNECTIONS_MAX {
                all.push(come(&mut connections, v4(at as u8)).await);
            }
            connections.0[0].served.done();
            let before = Instant::now();
            come(&mut connections, v4(200)).await;
            let waited = before.elapsed();
            assert!(waited > GRACE / 2 && waited < 2 * GRACE, "{waited:?}");
            let gone: Vec<_> = (0..all.len()).filter(|&at| all[at].is_finished()).collect();
            assert_eq!(gone, [1], "the first was served once more");
        });
    }

    #[test]
    fn a_place_that_is_free_again_is_taken_at_once() {
        in_no_time(async {
            let mut connections = Connections::default();
            for at in 0..CONNECTIONS_MAX {
                come(&mut connections, v4(at as u8)).await;
            }
            let left = connections.0[7].task.clone();
            let (_, ()) = tokio::join!(come(&mut connections, v4(200)), async { left.abort() });
            assert!(connections.0.iter().all(|held| held.network != v4(7)));
        });
    }
}
