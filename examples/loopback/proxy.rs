//! A faulty proxy: it cuts connections at random, and is unavailable now and then.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// Number of connections out of ten that the proxy cuts.
const CUT: u32 = 7;
/// Such a connection is cut after at most this many bytes, or this long.
const BYTES: usize = 6 << 10;
const LIFE: Duration = Duration::from_secs(3);
/// Maximum time of being available, and of being unavailable.
const THERE: Duration = Duration::from_secs(3);
const AWAY: Duration = Duration::from_millis(300);

/// The proxy's state and counters.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) over: AtomicBool,
    pub(crate) connections: AtomicUsize,
    pub(crate) cuts: AtomicUsize,
    pub(crate) outages: AtomicUsize,
}

impl Faults {
    fn are_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Forwards connections to `listener`, forever.
pub(crate) async fn run(
    mut listener: TcpListener,
    target: SocketAddr,
    seed: u64,
    faults: Arc<Faults>,
) -> io::Result<()> {
    let mut rng = Rng::with_seed(seed);
    let address = listener.local_addr()?;
    loop {
        let end = sleep(THERE.mul_f64(rng.f64()));
        tokio::pin!(end);
        loop {
            let (client, _) = tokio::select! {
                accepted = listener.accept() => accepted?,
                () = &mut end => break,
            };
            faults.connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(connection(client, target, rng.fork(), Arc::clone(&faults)));
        }
        if !faults.are_over() {
            faults.outages.fetch_add(1, Ordering::Relaxed);
            drop(listener);
            sleep(AWAY.mul_f64(rng.f64())).await;
            listener = TcpListener::bind(address).await?;
        }
    }
}

/// Forwards data in both directions until one side ends, fails or is cut.
async fn connection(mut client: TcpStream, target: SocketAddr, mut rng: Rng, faults: Arc<Faults>) -> io::Result<()> {
    let mut server = TcpStream::connect(target).await?;
    let doomed = rng.u32(..10) < CUT;
    // Half of the cuts happen within a message, half after some time.
    let talkative = rng.bool();
    let mut room = if doomed && talkative { rng.usize(..BYTES) } else { usize::MAX };
    let end = sleep(if doomed && !talkative { LIFE.mul_f64(rng.f64()) } else { Duration::MAX });
    tokio::pin!(end);
    let (mut up, mut down) = ([0; 4096], [0; 4096]);
    loop {
        let (to, said) = tokio::select! {
            read = client.read(&mut up) => (&mut server, up.get(..read?)),
            read = server.read(&mut down) => (&mut client, down.get(..read?)),
            () = &mut end, if !faults.are_over() => break,
        };
        let Some(said @ [_, ..]) = said else { return Ok(()) };
        // Data beyond the cut is not forwarded.
        if let Some(said) = said.get(..room).filter(|_| !faults.are_over()) {
            to.write_all(said).await?;
            break;
        }
        room = room.saturating_sub(said.len());
        to.write_all(said).await?;
    }
    faults.cuts.fetch_add(1, Ordering::Relaxed);
    if rng.bool() {
        client.set_zero_linger()?;
        server.set_zero_linger()?;
    }
    Ok(())
}
