//! The servers that are recognised by the names of their processes, and where each reports its
//! latency.

/// A server that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name, here and in the configuration.
    pub name: &'static str,
    /// What its processes are called (`/proc/PID/comm`, at most 15 bytes).
    pub comms: &'static [&'static str],
    /// Where its latency is told.
    pub tells: Tells,
}

/// Where a server's latency is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// On a metrics page of its own.
    Page(Page),
    /// As this table `latency` has it.
    Table {
        /// What is asked, for messages.
        place: &'static str,
        /// The keys of the table.
        keys: &'static str,
        /// The policy's settings.
        settings: &'static str,
        /// What is measured, and what is not.
        measured: &'static str,
    },
    /// In a Redis server's statistics, at the address that its title or its options name.
    Redis {
        /// The policy's settings.
        settings: &'static str,
        /// What is measured, and what is not.
        measured: &'static str,
    },
    /// Not without a change of its configuration, as this shipped example says; until then the time of
    /// its devices has to do.
    Example(&'static str),
    /// Nowhere that is known: the time of its devices has to do.
    Devices,
    /// Nowhere, and its devices tell nothing either: what to do instead.
    Nowhere(&'static str),
}

/// A metrics page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The options that say where the server listens, without their dashes, best first. As a variable
    /// of the environment an option is written `PREFIX_IN_CAPITALS`.
    pub options: &'static [&'static str],
    /// What such a variable begins with.
    pub prefix: &'static str,
    /// Where it listens if nothing is said.
    pub port: u16,
    /// The paths of the page, with the other keys of the table `latency` for each: servers of other
    /// versions have other names. The best comes first.
    pub paths: &'static [(&'static str, &'static str)],
    /// The policy's settings.
    pub settings: &'static str,
    /// What is measured, and what is not.
    pub measured: &'static str,
}

/// Those that tell the most come first: the first that runs is the one that is proposed.
pub const SERVERS: [Known; 19] = [
    Known {
        name: "etcd",
        comms: &["etcd"],
        tells: Tells::Page(Page {
            options: &["listen-metrics-urls", "listen-client-urls"],
            prefix: "ETCD_",
            port: 2379,
            paths: &[("/metrics", "metric = \"etcd_disk_wal_fsync_duration_seconds\"\n")],
            settings: "plf = 0.2",
            measured: "fsyncs of the write-ahead log, which each write to the cluster waits for; \
                       not the time in raft and in the network",
        }),
    },
    Known {
        name: "minio",
        comms: &["minio"],
        tells: Tells::Page(Page {
            options: &["address"],
            prefix: "MINIO_",
            port: 9000,
            // The second's page is renewed each 10 s at most, and the window must be longer than it is
            // old.
            paths: &[
                (
                    "/minio/metrics/v3/api/requests",
                    "metric = \"minio_api_requests_ttfb_seconds_distribution\"\n\
                     labels = { name = \"GetObject\" }\ninterval = \"1 s\"\n",
                ),
                (
                    "/minio/v2/metrics/cluster",
                    "metric = \"minio_s3_requests_ttfb_seconds_distribution\"\n\
                     labels = { api = \"getobject\" }\ninterval = \"1 s\"\n",
                ),
            ],
            settings: "plf = 0.3, window = 10.0",
            measured: "the time to the first byte of S3 reads, with a mean as good as the page's \
                       buckets are narrow; the page must be open to this host \
                       (MINIO_PROMETHEUS_AUTH_TYPE=public)",
        }),
    },
    Known {
        name: "ceph-osd",
        comms: &["ceph-osd"],
        tells: Tells::Table {
            place: "/var/run/ceph/ceph-osd.*.asok",
            keys: "kind = \"ceph\"\nsockets = [\"/var/run/ceph/ceph-osd.*.asok\"]\n",
            settings: "plf = 0.2",
            measured: "from the arrival of a client's operation at the OSD to its reply, replication \
                       to other nodes included; not the client's network",
        },
    },
    redis("redis", &["redis-server"]),
    redis("valkey", &["valkey-server"]),
    Known {
        name: "spdk",
        comms: &["spdk_tgt", "nvmf_tgt", "iscsi_tgt", "reactor_0"],
        tells: Tells::Nowhere(
            "its reactors bypass the kernel, and it reports no usable latency: start from the \
             example spdk.toml and a measuring command of your own",
        ),
    },
    Known {
        name: "wattio-target",
        comms: &["wattio-target"],
        tells: Tells::Nowhere(
            "it governs its own cores by the same law: see \"policy\" in its own configuration",
        ),
    },
    devices("nfsd", &["nfsd"]),
    devices("ganesha", &["ganesha.nfsd"]),
    devices("smbd", &["smbd"]),
    devices("glusterfsd", &["glusterfsd"]),
    devices("moosefs", &["mfschunkserver"]),
    devices("beegfs-storage", &["beegfs-storage"]),
    example("postgresql", &["postgres"], "postgresql.toml"),
    devices("mariadb", &["mariadbd", "mysqld"]),
    devices("mongodb", &["mongod"]),
    devices("nbd-server", &["nbd-server"]),
    example("haproxy", &["haproxy"], "haproxy.toml"),
    example("nginx", &["nginx"], "nginx.toml"),
];

const fn redis(name: &'static str, comms: &'static [&'static str]) -> Known {
    let tells = Tells::Redis {
        settings: "plf = 0.1",
        measured: "how long commands take the server; not what they wait for their turn, as one thread \
                   serves all clients, and not the network",
    };
    Known { name, comms, tells }
}

const fn example(
    name: &'static str,
    comms: &'static [&'static str],
    example: &'static str,
) -> Known {
    Known { name, comms, tells: Tells::Example(example) }
}

const fn devices(name: &'static str, comms: &'static [&'static str]) -> Known {
    Known { name, comms, tells: Tells::Devices }
}

/// The addresses at which a server may show its page, as its command line and its environment have
/// them, and where it listens if nothing is said; each once. Those that are encrypted are left out.
#[must_use]
pub fn addresses(
    page: &Page,
    path: &str,
    arguments: &[String],
    variables: &[String],
) -> Vec<String> {
    let mut found = Vec::new();
    for option in page.options {
        let variable = format!("{}{}=", page.prefix, option.replace('-', "_").to_uppercase());
        let set = variables.iter().filter_map(|text| text.strip_prefix(&variable));
        for value in given(option, arguments).into_iter().chain(set) {
            found.extend(value.split(',').filter_map(|place| address(place.trim(), path)));
        }
    }
    found.push(format!("http://127.0.0.1:{}{path}", page.port));
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|address| seen.insert(address.clone()));
    found
}

/// The addresses at which a Redis server may answer, each once: that of its title, which stands in the
/// place of its command line (`redis-server *:6379`), those of its options, and the usual one.
#[must_use]
pub fn redis_addresses(arguments: &[String]) -> Vec<String> {
    let words: Vec<String> =
        arguments.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
    let title = words.iter().skip(1).filter(|word| !word.starts_with("--"));
    let mut found: Vec<_> = title.filter_map(|word| reached_at(word)).collect();
    let ports = given("port", &words).into_iter();
    found.extend(ports.filter_map(|port| reached_at(&format!(":{port}"))));
    let sockets = given("unixsocket", &words).into_iter().filter(|path| path.starts_with('/'));
    found.extend(sockets.map(str::to_owned));
    found.push("127.0.0.1:6379".to_owned());
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|address| seen.insert(address.clone()));
    found
}

/// The processes of the server that answers at an address, of all that have its name with their addresses
/// as [`redis_addresses`] has them; `asked` is the one that was taken to listen there. The last address
/// of each is only the usual one.
#[must_use]
pub fn of_server(asked: (u32, &String), all: &[(u32, Vec<String>)]) -> Vec<u32> {
    let (asked, address) = asked;
    let own = |addresses: &[String]| match addresses {
        [own @ .., _] if !own.is_empty() => own.contains(address),
        usual => usual.contains(address),
    };
    let found: Vec<u32> =
        all.iter().filter(|(_, addresses)| own(addresses)).map(|&(pid, _)| pid).collect();
    if found.is_empty() { vec![asked] } else { found }
}

/// The values of an option: `--option=VALUE`, `--option VALUE`, and both with one dash.
fn given<'a>(option: &str, arguments: &'a [String]) -> Vec<&'a str> {
    let mut values = Vec::new();
    for (at, argument) in arguments.iter().enumerate() {
        let bare = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
        match bare.and_then(|bare| bare.strip_prefix(option)) {
            Some("") => values.extend(arguments.get(at + 1).map(String::as_str)),
            Some(rest) => values.extend(rest.strip_prefix('=')),
            None => {}
        }
    }
    values
}

/// The page of a server that listens at `place`: `http://0.0.0.0:2379`, `10.0.0.1:9000`, `:9000`.
fn address(place: &str, path: &str) -> Option<String> {
    let place = place.strip_prefix("http://").unwrap_or(place);
    if place.contains("://") {
        return None;
    }
    Some(format!("http://{}{path}", reached_at(place.trim_end_matches('/'))?))
}

/// Where what listens at `place` (`*:6379`, `0.0.0.0:2379`, `::1:6379`, `:9000`) is reached from its
/// own host.
fn reached_at(place: &str) -> Option<String> {
    let (host, port) = place.rsplit_once(':')?;
    let port: u16 = port.parse().ok().filter(|&port| port > 0)?;
    // Redis writes a dash before an address that need not be there.
    Some(match host.trim_start_matches('-') {
        "" | "*" | "0.0.0.0" | "[::]" | "::" | "::*" => format!("127.0.0.1:{port}"),
        host if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
        host => format!("{host}:{port}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page_of(name: &str) -> Page {
        match SERVERS.iter().find(|server| server.name == name).unwrap().tells {
            Tells::Page(page) => page,
            other => panic!("{other:?}"),
        }
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn names_are_those_that_the_kernel_can_show() {
        let mut seen = std::collections::BTreeSet::new();
        for server in SERVERS {
            assert!(seen.insert(server.name), "{}", server.name);
            assert!(server.comms.iter().all(|comm| (1..=15).contains(&comm.len())));
            wattio_host::config::check_name(server.name).unwrap();
        }
    }

    #[test]
    fn addresses_come_from_the_command_line_and_the_environment() {
        let etcd = page_of("etcd");
        let usual = "http://127.0.0.1:2379/metrics";
        assert_eq!(addresses(&etcd, "/metrics", &[], &[]), [usual]);
        let arguments = texts(&[
            "/usr/bin/etcd",
            "--listen-client-urls",
            "https://10.0.0.1:2379,http://0.0.0.0:12379",
            "-listen-metrics-urls=http://[::1]:2381/",
        ]);
        let found = addresses(&etcd, "/metrics", &arguments, &[]);
        let metrics = "http://[::1]:2381/metrics";
        assert_eq!(found, [metrics, "http://127.0.0.1:12379/metrics", usual]);
        let variables = texts(&["PATH=/bin", "ETCD_LISTEN_CLIENT_URLS=http://localhost:2379"]);
        let found = addresses(&etcd, "/metrics", &[], &variables);
        assert_eq!(found, ["http://localhost:2379/metrics", usual]);
        let minio = page_of("minio");
        let arguments = texts(&["minio", "server", "--address", ":9001"]);
        let found = addresses(&minio, "/minio/v2/metrics/cluster", &arguments, &[]);
        assert_eq!(found[0], "http://127.0.0.1:9001/minio/v2/metrics/cluster");
    }

    /// A server at another port than the usual one was not found: its title says where it listens.
    #[test]
    fn a_redis_server_is_found_by_its_title_or_its_options() {
        let usual = "127.0.0.1:6379";
        for (arguments, first) in [
            (&["redis-server *:16399", "", ""][..], "127.0.0.1:16399"),
            (&["valkey-server 10.0.0.5:6380 [cluster]"], "10.0.0.5:6380"),
            (&["redis-server ::1:6380"], "[::1]:6380"),
            (&["redis-server -::*:6380"], "127.0.0.1:6380"),
            (&["/usr/bin/redis-server", "--port", "7000"], "127.0.0.1:7000"),
            (&["redis-server", "--port", "0", "--unixsocket", "/run/r.sock"], "/run/r.sock"),
            (&["redis-server", "/etc/redis/redis.conf"], usual),
            (&["redis-server", "--port"], usual),
            (&[], usual),
        ] {
            let found = redis_addresses(&texts(arguments));
            assert_eq!((found[0].as_str(), found.last().unwrap().as_str()), (first, usual));
            assert!(found.len() < 3, "{found:?}");
        }
    }

    /// One of two servers was measured, and both were placed.
    #[test]
    fn processes_of_one_redis_server_are_told_from_those_of_others() {
        let all: Vec<(u32, Vec<String>)> = [
            (7, "redis-server *:7000"),
            (8, "redis-server *:6379"),
            (9, "redis-rdb-bgsave *:7000"),
            (10, "redis-server"),
        ]
        .into_iter()
        .map(|(pid, title)| (pid, redis_addresses(&texts(&[title]))))
        .collect();
        let of = |pid, address: &str| of_server((pid, &address.to_owned()), &all);
        assert_eq!(of(7, "127.0.0.1:7000"), [7, 9]);
        assert_eq!(of(7, "127.0.0.1:6379"), [8, 10], "the usual address is not that of each");
        assert_eq!(of_server((7, &"127.0.0.1:6379".to_owned()), &all[..1]), [7]);
    }

    #[test]
    fn an_option_without_its_value_says_nothing() {
        let etcd = page_of("etcd");
        for argument in
            ["--listen-client-urls", "--listen-client-urlsx=a:1", "--listen-client-urls=a"]
        {
            assert_eq!(
                addresses(&etcd, "/metrics", &texts(&[argument]), &[]).len(),
                1,
                "{argument}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(words in proptest::collection::vec("(-{0,2}address[ =]?)?\\PC{0,12}", 0..5)) {
            prop_assert!(!addresses(&page_of("minio"), "/m", &words, &words).is_empty());
            prop_assert!(!redis_addresses(&words).is_empty());
        }
    }
}
