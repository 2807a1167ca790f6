//! The redirects of the user's browser.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Bytes of the head of a browser's request.
const HEAD: usize = 64 << 10;
/// How long a connection may take, its judgement included.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that are served side by side.
const CONNECTIONS: usize = 256;
const PATH: &str = "/callback";
const ACCEPTED: &str = "The answer was received. You may close this page.";
const REFUSED: &str = "This is not the answer that is waited for, and nothing was done.";

/// A listener on 127.0.0.1 for what the user's browser is redirected to (RFC 8252, section 7.3).
///
/// Connections are served side by side, and each has 5 s in total, so that none holds up another one. A page that
/// answers a redirect repeats nothing of it.
#[derive(Debug)]
pub struct Loopback {
    listener: std::net::TcpListener,
    path: Arc<str>,
    port: u16,
}

impl Loopback {
    /// Listens on the first of these ports that is free, where 0 is any, for redirects to `/callback`.
    ///
    /// # Errors
    /// None of the ports can be had.
    pub fn bind(ports: impl IntoIterator<Item = u16>) -> io::Result<Self> {
        let addresses: Vec<SocketAddr> = ports.into_iter().map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect();
        Self::on(&addresses, PATH)
    }

    /// Listens for a redirect URI, if it is one of this machine: `http` with a port.
    ///
    /// # Errors
    /// The port cannot be had.
    pub fn of(redirect_uri: &str) -> io::Result<Option<Self>> {
        let uri = redirect_uri.parse().ok().and_then(|uri: http::Uri| Some((address(&uri)?, uri)));
        uri.map(|(address, uri)| Self::on(&[address], uri.path())).transpose()
    }

    /// The port of a redirect URI, if it is one of this machine.
    pub(super) fn port_of(redirect_uri: &str) -> Option<u16> {
        Some(address(&redirect_uri.parse().ok()?)?.port())
    }

    fn on(addresses: &[SocketAddr], path: &str) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(addresses)?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, path: path.into(), port })
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The redirect URI.
    pub fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.path)
    }

    /// The ports of these redirect URIs, as far as they are of [`bind`](Self::bind), to listen on them again.
    pub fn ports<'a>(redirect_uris: impl IntoIterator<Item = &'a str>) -> Vec<u16> {
        let uris = redirect_uris.into_iter();
        let ports = uris.filter_map(|uri| uri.strip_prefix("http://127.0.0.1:")?.strip_suffix(PATH)?.parse().ok());
        ports.collect()
    }

    /// Serves browsers until it is dropped. The function takes each path and query that was redirected to, for
    /// [`OAuthInput::Redirect`](mcp_proto::binding::oauth::OAuthInput::Redirect), and says whether it is the answer that is
    /// waited for: the page says so, too.
    pub async fn run<F>(self, take: impl Fn(String) -> F + Send + Sync + 'static)
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let (_open, closed) = oneshot::channel();
        self.run_until(closed, take).await;
    }

    /// As `run`, until the sender is dropped: then the port is free, and browsers that came before get their answers.
    pub(super) async fn run_until<F>(
        self,
        mut closed: oneshot::Receiver<()>,
        take: impl Fn(String) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = bool> + Send + 'static,
    {
        let Ok(listener) = TcpListener::from_std(self.listener) else { return };
        let (path, take) = (self.path, Arc::new(take));
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        let (path, take) = (Arc::clone(&path), Arc::clone(&take));
                        connections.spawn(async move { drop(timeout(PATIENCE, serve(stream, &path, &*take)).await) });
                    }
                    // There may be no descriptor left for it.
                    Err(_) => sleep(Duration::from_millis(100)).await,
                },
                Some(_) = connections.join_next() => {}
                _ = &mut closed => break,
            }
        }
        connections.detach_all();
    }
}

/// Where a redirect URI leads, if it is one of this machine: `http` with a port.
fn address(uri: &http::Uri) -> Option<SocketAddr> {
    let port = uri.port_u16().filter(|_| uri.scheme_str() == Some("http"))?;
    let address: IpAddr =
        if uri.host() == Some("[::1]") { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    Some((address, port).into())
}

/// Reads a request of a browser, and answers it.
async fn serve<F: Future<Output = bool>>(
    mut stream: TcpStream,
    path: &str,
    take: &(impl Fn(String) -> F + Sync),
) -> io::Result<()> {
    let head = head(&mut stream).await?;
    let target = head.strip_prefix("GET ").and_then(|line| line.split(' ').next());
    let (status, text) = match target.filter(|target| target.split('?').next() == Some(path)) {
        None => ("404 Not Found", ""),
        Some(redirect) if take(redirect.into()).await => ("200 OK", ACCEPTED),
        Some(_) => ("400 Bad Request", REFUSED),
    };
    let page = format!("<!doctype html><title>Sign-in</title><p>{text}</p>");
    let length = page.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(format!("{head}{page}").as_bytes()).await
}

/// The head of a request. All of it is read, because closing would reset the connection otherwise.
async fn head(stream: &mut TcpStream) -> io::Result<String> {
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while head.len() < HEAD {
        let read = stream.read(&mut buffer).await?;
        // What came before may have the beginning of the blank line.
        let known = head.len().saturating_sub(3);
        head.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if head.get(known..).is_some_and(|tail| tail.windows(4).any(|bytes| bytes == b"\r\n\r\n")) {
            return Ok(String::from_utf8_lossy(&head).into_owned());
        }
        if read == 0 {
            break;
        }
    }
    Err(ErrorKind::InvalidData.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use tokio::spawn;
    use tokio::sync::mpsc;

    use super::*;

    /// What a request is answered with.
    async fn visit(port: u16, request: &'static str) -> String {
        let mut browser = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        browser.write_all(request.as_bytes()).await.unwrap();
        let mut page = String::new();
        browser.read_to_string(&mut page).await.unwrap();
        page
    }

    #[tokio::test]
    async fn only_the_redirect_is_judged_and_answered_without_its_secrets() {
        let loopback = Loopback::bind([0]).unwrap();
        let (port, (sender, mut came)) = (loopback.port(), mpsc::unbounded_channel());
        let task = spawn(loopback.run(move |redirect| {
            let is_ours = redirect.contains("state=s");
            sender.send(redirect).unwrap();
            async move { is_ours }
        }));
        // One that sends nothing holds up no other.
        let _silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        for (request, redirect, status) in [
            ("GET /callback?code=hush&state=s HTTP/1.1\r\nHost: a\r\n\r\n", Some("/callback?code=hush&state=s"), "200"),
            ("GET /callback?code=hush&state=t HTTP/1.1\r\n\r\n", Some("/callback?code=hush&state=t"), "400"),
            ("GET /favicon.ico HTTP/1.1\r\n\r\n", None, "404"),
            ("POST /callback HTTP/1.1\r\n\r\n", None, "404"),
            ("\r\n\r\n", None, "404"),
        ] {
            let page = visit(port, request).await;
            assert!(page.starts_with(&format!("HTTP/1.1 {status}")) && !page.contains("hush"), "{page}");
            assert_eq!(came.try_recv().ok().as_deref(), redirect, "{request}");
        }
        task.abort();
    }

    #[tokio::test]
    async fn when_it_is_closed_its_port_is_free_and_who_came_before_is_answered() {
        let loopback = Loopback::bind([0]).unwrap();
        let (port, (open, closed), (sender, mut came)) =
            (loopback.port(), oneshot::channel(), mpsc::unbounded_channel());
        let judged = Arc::new(tokio::sync::Notify::new());
        let judgement = Arc::clone(&judged);
        let task = spawn(loopback.run_until(closed, move |redirect| {
            sender.send(redirect).unwrap();
            let judgement = Arc::clone(&judgement);
            async move {
                judgement.notified().await;
                true
            }
        }));
        let browser = spawn(visit(port, "GET /callback?code=hush HTTP/1.1\r\n\r\n"));
        came.recv().await.unwrap();
        drop(open);
        task.await.unwrap();
        assert_eq!(Loopback::bind([port]).unwrap().port(), port);
        judged.notify_one();
        assert!(browser.await.unwrap().starts_with("HTTP/1.1 200"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_sends_nothing_is_closed() {
        let loopback = Loopback::bind([0]).unwrap();
        let port = loopback.port();
        let _task = spawn(loopback.run(|_| async { true }));
        assert_eq!(visit(port, "GET /callback").await, "");
    }

    #[test]
    fn the_port_of_a_registered_redirect_uri_is_used_again_while_it_is_free() {
        let taken = Loopback::bind([0]).unwrap();
        let uri = taken.redirect_uri();
        let ports = Loopback::ports(["https://app.example/callback", &uri]);
        assert_eq!(ports, [taken.port()]);
        let used = || Loopback::bind(ports.iter().copied().chain([0])).unwrap().redirect_uri();
        assert_ne!(used(), uri);
        assert!(Loopback::of(&uri).is_err());
        drop(taken);
        assert_eq!(used(), uri);
        assert_eq!(Loopback::of(&uri).unwrap().unwrap().redirect_uri(), uri);
        for other in ["https://app.example:1/callback", "my.host:/callback", "http://127.0.0.1/callback"] {
            assert!(Loopback::of(other).unwrap().is_none(), "{other}");
        }
    }
}
