//! Who else can reach what is served: told at the start, as nobody is asked for a name.

use crate::tls::Files;
use std::net::SocketAddr;
use wattio_service::ServiceSettings;
use wattio_target_config::Address;

fn is_local(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// What others can do where clients connect, and by the address of the `page`; of `tls` it is known
/// whether clients by TCP need it.
#[must_use]
pub fn warnings(
    listen: &[Address],
    tls: Option<&(Files, bool)>,
    service: &ServiceSettings,
    page: Option<SocketAddr>,
) -> Vec<String> {
    let page = page.filter(|address| service.token.is_none() && !is_local(address));
    let page = page.map(|address| {
        format!(
            "whoever reaches {address} can see the page and the metrics; service.tls and \
             service.token keep others out"
        )
    });
    let is_asked = tls.is_some_and(|(files, required)| *required && files.clients.is_some());
    let open = listen.iter().filter_map(|address| match address {
        Address::Tcp(address) if !is_asked && !is_local(address) => Some(format!(
            "whoever reaches {address} can use the volumes; tls.clients, with tls.required, keeps \
             others out"
        )),
        _ => None,
    });
    page.into_iter().chain(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_can_reach_is_told() {
        let [own, mapped, all] = ["127.0.0.1:1", "[::ffff:127.0.0.1]:1", "0.0.0.0:1"]
            .map(|address| address.parse::<SocketAddr>().unwrap());
        let mut service = ServiceSettings::default();
        let mut listen = vec![Address::Unix("/n".into()), Address::Tcp(own), Address::Systemd];
        assert_eq!(warnings(&listen, None, &service, None), [""; 0]);
        assert_eq!(warnings(&listen, None, &service, Some(mapped)), [""; 0]);
        listen.push(Address::Tcp(all));
        let told = warnings(&listen, None, &service, Some(all));
        assert!(told[0].starts_with("whoever reaches 0.0.0.0:1 can see the page"), "{told:?}");
        assert!(told[1].starts_with("whoever reaches 0.0.0.0:1 can use the volumes"), "{told:?}");
        service.token = Some("/token".into());
        for (has_clients, required, count) in [(true, true, 0), (true, false, 1), (false, true, 1)]
        {
            let clients = has_clients.then(|| "/ca.pem".into());
            let files = Files { certificate: "/c.pem".into(), key: "/k.pem".into(), clients };
            let told = warnings(&listen, Some(&(files, required)), &service, Some(all));
            assert_eq!(told.len(), count, "{told:?}");
        }
    }
}
