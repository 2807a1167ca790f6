//! `no_std`: lists the tools of a server at the other end of a serial line, on a Cortex-M3 (the board MPS2 with the image
//! AN385, which qemu emulates). The clock and the output are those of the debugger (semihosting).
#![no_std]
#![no_main]

extern crate alloc;

use core::ptr::{read_volatile, write_volatile};

use cortex_m_rt::entry;
use cortex_m_semihosting::debug::{EXIT_FAILURE, EXIT_SUCCESS, exit};
use cortex_m_semihosting::{hprintln, nr, syscall};
use embedded_alloc::LlffHeap;
use mcp_proto::{Action, Cause, Client, Event, Lines, Options, Time, Transport};
use panic_semihosting as _;

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

/// The serial line: a CMSDK UART.
struct Line;

impl Line {
    const DATA: *mut u32 = 0x4000_4000 as *mut u32;
    const STATE: *mut u32 = 0x4000_4004 as *mut u32;
    const CONTROL: *mut u32 = 0x4000_4008 as *mut u32;
    const DIVISOR: *mut u32 = 0x4000_4010 as *mut u32;
    const SENDS: u32 = 1;
    const HAS_RECEIVED: u32 = 2;

    fn open() -> Self {
        // SAFETY: they are the registers of the board.
        unsafe {
            write_volatile(Self::DIVISOR, 16);
            write_volatile(Self::CONTROL, 3);
        }
        Self
    }

    fn send(&self, bytes: &[u8]) {
        for byte in bytes {
            // SAFETY: they are the registers of the board.
            unsafe {
                while read_volatile(Self::STATE) & Self::SENDS != 0 {}
                write_volatile(Self::DATA, u32::from(*byte));
            }
        }
    }

    fn receive(&self) -> Option<u8> {
        // SAFETY: they are the registers of the board.
        unsafe { (read_volatile(Self::STATE) & Self::HAS_RECEIVED != 0).then(|| read_volatile(Self::DATA) as u8) }
    }
}

/// The time since the start.
fn now() -> Time {
    // SAFETY: it has no argument, and returns hundredths of a second.
    Time::from_millis(unsafe { syscall(nr::CLOCK, &()) } as u64 * 10)
}

#[entry]
fn main() -> ! {
    // SAFETY: it is called once, before the first allocation.
    unsafe {
        embedded_alloc::init!(HEAP, 1 << 20);
    }
    let line = Line::open();
    let mut options = Options::new("embed-bare", "1.0");
    options.reconnect = None;
    // Without reconnects the seed of their jitter is of no importance.
    let mut client = Client::new(Lines::new(), options, 1);
    let mut current = None;
    client.open(now()).expect("a new client can be opened");
    loop {
        while let Some(action) = client.poll() {
            match action {
                Action::Open(connection) => {
                    current = Some(connection);
                    client.handle_transport(now(), connection, Transport::Opened);
                }
                Action::Send(message) => line.send(message.line()),
                Action::Shutdown(_) => {
                    if let Some(connection) = current {
                        client.handle_transport(
                            now(),
                            connection,
                            Transport::Closed { why: "nobody listens any more" },
                        );
                    }
                }
                Action::Event(Event::Ready) => {
                    client.catalog().tools().for_each(|tool| hprintln!("{}", tool.name));
                    let _ = client.close(now());
                }
                Action::Event(Event::Closed { cause: Cause::Failed(failure) }) => {
                    hprintln!("{}", failure);
                    exit(EXIT_FAILURE);
                }
                Action::Event(Event::Closed { .. }) => exit(EXIT_SUCCESS),
                _ => {}
            }
        }
        match (line.receive(), current) {
            (Some(byte), Some(connection)) => {
                // What comes with it is read at once: the client has no use for single bytes.
                let mut bytes = alloc::vec![byte];
                bytes.extend(core::iter::from_fn(|| line.receive()).take(255));
                client.handle_bytes(now(), connection, &bytes);
            }
            _ if client.deadline().is_some_and(|due| due <= now()) => client.handle_timeout(now()),
            _ => {}
        }
    }
}
