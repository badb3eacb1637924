//! A proxy between a client and its server, with the faults of a network.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

/// Listens on a free port and hands on what it gets, until it is told otherwise.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    /// Connections up to this number are swallowed or cut.
    faults: watch::Sender<Faults>,
    accepted: AtomicUsize,
}

/// What happens to which connections, by their number from 1.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    /// Up to this one nothing gets through any more, and nobody is told.
    swallowed: usize,
    /// Up to this one no answer gets through any more.
    muted: usize,
    /// Up to this one they are closed.
    cut: usize,
    /// Up to this one they are reset: what is under way is thrown away.
    reset: usize,
    /// New connections are closed at once.
    refusing: bool,
    /// How long everything is under way.
    delay: Duration,
}

impl Proxy {
    /// A proxy of the server at this address.
    ///
    /// # Panics
    ///
    /// If no port is free.
    pub async fn to(server: impl Into<String>, port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            faults: watch::channel(Faults::default()).0,
            accepted: AtomicUsize::new(0),
        });
        let accepting = tokio::spawn(accept(listener, (server.into(), port), Arc::clone(&state)));
        Self {
            address,
            state,
            accepting,
        }
    }

    /// Where it listens, on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many connections it has accepted so far.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::SeqCst)
    }

    /// From now on nothing passes on the connections there are, in either direction; they stay open.
    pub fn swallow(&self) {
        let up_to = self.accepted();
        self.state
            .faults
            .send_modify(|faults| faults.swallowed = up_to);
    }

    /// From now on everything takes so long to get through, in either direction.
    pub fn delay(&self, delay: Duration) {
        self.state.faults.send_modify(|faults| faults.delay = delay);
    }

    /// From now on the server gets what is sent on the connections there are, and its answers are lost.
    pub fn mute(&self) {
        let up_to = self.accepted();
        self.state.faults.send_modify(|faults| faults.muted = up_to);
    }

    /// Closes the connections on which nothing passes any more.
    pub fn close_swallowed(&self) {
        self.state
            .faults
            .send_modify(|faults| faults.cut = faults.cut.max(faults.swallowed));
    }

    /// Closes the connections there are.
    pub fn cut(&self) {
        let up_to = self.accepted();
        self.state.faults.send_modify(|faults| faults.cut = up_to);
    }

    /// Resets the connections there are, as a router does that has forgotten them.
    pub fn reset(&self) {
        let up_to = self.accepted();
        self.state.faults.send_modify(|faults| faults.reset = up_to);
    }

    /// Closes the connections there are, and each new one, until [`admit`](Self::admit).
    pub fn refuse(&self) {
        self.state
            .faults
            .send_modify(|faults| faults.refusing = true);
        self.cut();
    }

    /// Lets new connections through again.
    pub fn admit(&self) {
        self.state
            .faults
            .send_modify(|faults| faults.refusing = false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.state
            .faults
            .send_modify(|faults| faults.cut = usize::MAX);
    }
}

async fn accept(listener: TcpListener, server: (String, u16), state: Arc<State>) {
    while let Ok((client, _)) = listener.accept().await {
        let number = state.accepted.fetch_add(1, Ordering::SeqCst) + 1;
        if state.faults.borrow().refusing {
            continue;
        }
        let (server, faults) = (server.clone(), state.faults.subscribe());
        tokio::spawn(async move {
            // Either side may end it; the other one is told by its end of the connection.
            let _ = connection(client, server, faults, number).await;
        });
    }
}

async fn connection(
    mut client: TcpStream,
    server: (String, u16),
    mut faults: watch::Receiver<Faults>,
    number: usize,
) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
    let up = pump(from_client, to_server, faults.clone(), |faults: &Faults| {
        faults.swallowed < number
    });
    let down = pump(from_server, to_client, faults.clone(), |faults: &Faults| {
        faults.swallowed.max(faults.muted) < number
    });
    tokio::select! {
        done = up => return done,
        done = down => return done,
        () = until(&mut faults, |faults| faults.cut.max(faults.reset) >= number) => {}
    }
    if faults.borrow().reset >= number {
        client.set_zero_linger()?;
        server.set_zero_linger()?;
    }
    Ok(())
}

/// Hands bytes on while they may pass; what is swallowed is read no more.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut faults: watch::Receiver<Faults>,
    passing: impl Fn(&Faults) -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read?,
            () = until(&mut faults, |faults| !passing(faults)) => std::future::pending().await,
        };
        if read == 0 {
            return Ok(());
        }
        let delay = faults.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        // What came after the fault does not pass, even if both are noticed at once.
        until(&mut faults, |faults| passing(faults)).await;
        to.write_all(&buffer[..read]).await?;
    }
}

/// Waits for a fault; what watches is not held meanwhile.
async fn until(faults: &mut watch::Receiver<Faults>, condition: impl Fn(&Faults) -> bool) {
    if faults.wait_for(condition).await.is_err() {
        // The proxy is gone, and has cut all connections before.
        std::future::pending::<()>().await;
    }
}
