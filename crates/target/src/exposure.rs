//! Who else can use the volumes: told at the start, as NBD asks nobody for a name.

use crate::tls::Files;
use wattio_service::is_local;
use wattio_target_config::Address;

/// What others can do where clients connect; of `tls` it is known whether clients by TCP need it.
#[must_use]
pub fn warnings(listen: &[Address], tls: Option<&(Files, bool)>) -> Vec<String> {
    let is_asked = tls.is_some_and(|(files, required)| *required && files.clients.is_some());
    let open = listen.iter().filter_map(|address| match address {
        Address::Tcp(address) if !is_asked && !is_local(address) => Some(format!(
            "whoever reaches {address} can use the volumes; tls.clients, with tls.required, keeps \
             others out"
        )),
        _ => None,
    });
    open.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn what_others_can_use_is_told() {
        let [own, mapped, all] = ["127.0.0.1:1", "[::ffff:127.0.0.1]:1", "0.0.0.0:1"]
            .map(|address| address.parse::<SocketAddr>().unwrap());
        let mut listen = vec![Address::Unix("/n".into()), Address::Tcp(own), Address::Systemd];
        listen.push(Address::Tcp(mapped));
        assert_eq!(warnings(&listen, None), [""; 0]);
        listen.push(Address::Tcp(all));
        let told = warnings(&listen, None);
        assert!(told[0].starts_with("whoever reaches 0.0.0.0:1 can use the volumes"), "{told:?}");
        for (has_clients, required, count) in [(true, true, 0), (true, false, 1), (false, true, 1)]
        {
            let clients = has_clients.then(|| "/ca.pem".into());
            let files = Files { certificate: "/c.pem".into(), key: "/k.pem".into(), clients };
            let told = warnings(&listen, Some(&(files, required)));
            assert_eq!(told.len(), count, "{told:?}");
        }
    }
}
