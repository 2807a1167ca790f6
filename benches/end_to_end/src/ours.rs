//! Both drivers of this repository.

use std::rc::Rc;
use std::time::Duration;

use mcp_proto::{Event, Options, Outcome, Request};
use mcp_proto_std as threads;
use mcp_proto_tokio::{Endpoint, Program, Remote, Session};
use tokio::runtime::Runtime;

use crate::client::{ARGUMENTS, Client, ECHO, LARGE, STORM, Size, Transport, check, shares};
use crate::peer::Peer;

fn program(peer: &Peer) -> Program {
    let [program, arguments @ ..] = peer.command();
    Program::new(program).args(arguments)
}

/// The defaults, but for reports of progress, of which the defaults keep ten a second.
fn options() -> Options {
    let mut options = Options::new("end-to-end", "1.0");
    options.timeouts.progress_interval = Duration::ZERO;
    options
}

pub struct Tokio {
    runtime: Rc<Runtime>,
    session: Session,
}

impl Tokio {
    pub fn connect(runtime: &Rc<Runtime>, peer: &Peer) -> (Box<dyn Client>, usize) {
        let session = runtime.block_on(async {
            let endpoint = match peer.transport {
                Transport::Stdio => Endpoint::from(program(peer)),
                Transport::Json | Transport::Events => Remote::new(&peer.url()).unwrap().into(),
            };
            Session::connect(endpoint, options()).await.expect("mcp-proto-tokio connects")
        });
        let tools = session.catalog().tools().count();
        (Box::new(Self { runtime: Rc::clone(runtime), session }), tools)
    }
}

async fn echo(session: &Session) {
    check(session.call_tool(ECHO, &ARGUMENTS).await.unwrap().text().len());
}

impl Client for Tokio {
    fn calls(&mut self, count: usize, at_once: usize) {
        self.runtime.block_on(async {
            if at_once == 1 {
                for _ in 0..count {
                    echo(&self.session).await;
                }
                return;
            }
            let tasks: Vec<_> = shares(count, at_once)
                .map(|count| {
                    let session = self.session.clone();
                    tokio::spawn(async move {
                        for _ in 0..count {
                            echo(&session).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }

    fn storm(&mut self, size: usize) -> usize {
        self.runtime.block_on(async {
            let call = self.session.start_tool(STORM, &Size { size }).unwrap();
            let mut progress = call.progress();
            let mut reports = 0;
            while progress.next().await.is_some() {
                reports += 1;
            }
            call.await.unwrap();
            reports
        })
    }

    fn large(&mut self, size: usize, reads_text: bool) -> Option<usize> {
        let reply = self.runtime.block_on(self.session.call_tool(LARGE, &Size { size })).unwrap();
        Some(if reads_text { reply.text().len() } else { reply.raw().get().len() })
    }
}

impl Drop for Tokio {
    fn drop(&mut self) {
        self.runtime.block_on(self.session.close());
    }
}

pub struct Std(Option<threads::Session>);

impl Std {
    pub fn connect(peer: &Peer) -> (Box<dyn Client>, usize) {
        let session = threads::Session::connect(program(peer), options()).expect("mcp-proto-std connects");
        let tools = session.catalog().tools().count();
        (Box::new(Self(Some(session))), tools)
    }
}

impl Client for Std {
    fn calls(&mut self, count: usize, at_once: usize) {
        let session = self.0.as_mut().unwrap();
        if at_once == 1 {
            for _ in 0..count {
                check(session.call_tool(ECHO, &ARGUMENTS).unwrap().text().len());
            }
            return;
        }
        let request = || Request::call_tool(ECHO, Some(&threads::arguments(&ARGUMENTS).unwrap()));
        let (mut started, mut finished) = (0, 0);
        while finished < count {
            while started < count && started - finished < at_once {
                session.request(request()).unwrap();
                started += 1;
            }
            if let Some(Event::Finished { outcome, .. }) = session.next_event(None) {
                check(threads::reply(outcome).unwrap().text().len());
                finished += 1;
            }
        }
    }

    fn storm(&mut self, size: usize) -> usize {
        let session = self.0.as_mut().unwrap();
        let arguments = threads::arguments(&Size { size }).unwrap();
        session.request(Request::call_tool(STORM, Some(&arguments)).progress(true)).unwrap();
        let mut reports = 0;
        loop {
            match session.next_event(None) {
                Some(Event::Progress { .. }) => reports += 1,
                Some(Event::Finished { outcome: Outcome::Result(_), .. }) => return reports,
                other => drop(other),
            }
        }
    }

    fn large(&mut self, size: usize, reads_text: bool) -> Option<usize> {
        let reply = self.0.as_mut().unwrap().call_tool(LARGE, &Size { size }).unwrap();
        Some(if reads_text { reply.text().len() } else { reply.raw().get().len() })
    }
}

impl Drop for Std {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            session.end();
        }
    }
}
