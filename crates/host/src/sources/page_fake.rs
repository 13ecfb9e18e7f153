//! A page of metrics for tests.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// A page whose text the test sets.
pub fn serve(page: &Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let page = Arc::clone(page);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let body = page.lock().unwrap().clone();
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close");
            let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
        }
    });
    url
}
