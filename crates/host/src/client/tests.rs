use super::{
    pool::{Idle, Link},
    wire::{SharedWire, Wire},
    *,
};
use tokio::net::UnixStream;

fn server(number: usize) -> Server {
    Server::Internet {
        host: format!("{number}.example"),
        port: 80,
        tls: false,
    }
}

fn has(client: &Client, number: usize) -> bool {
    client.0.pools.borrow().contains_key(&server(number))
}

/// A connection that waits for its next request.
fn idle() -> Idle {
    let (stream, _) = UnixStream::pair().unwrap();
    Idle {
        link: Rc::new(Link {
            sender: RefCell::default(),
            wire: SharedWire::new(Wire::Unix(stream)),
            is_busy: Cell::new(false),
            tally: None,
            _owner: None,
        }),
        since: 0,
    }
}

fn run(act: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(act);
}

#[test]
fn servers_that_were_named_once_are_forgotten() {
    run(async {
        let client = Client::new(Settings::default());
        let services = client.pool(&server(0), 1);
        client.pool(&server(1), 1).idle.borrow_mut().push(idle());
        for number in 2..10 * MOST_POOLS {
            client.pool(&server(number), 1);
            assert!(client.0.pools.borrow().len() <= MOST_POOLS + 1);
        }
        assert!(
            Rc::ptr_eq(&services, &client.pool(&server(0), 1)),
            "somebody has it"
        );
        assert!(has(&client, 1), "it has a connection");
        assert!(!has(&client, 2));
    });
}

#[test]
fn of_servers_with_connections_the_one_asked_last_is_remembered() {
    run(async {
        let client = Client::new(Settings::default());
        for number in 0..MOST_POOLS {
            let pool = client.pool(&server(number), 1);
            pool.idle.borrow_mut().push(idle());
        }
        client.pool(&server(0), 1);
        client.pool(&server(MOST_POOLS), 1);
        assert_eq!(client.0.pools.borrow().len(), MOST_POOLS);
        assert!(has(&client, 0) && !has(&client, 1) && has(&client, 2));
    });
}
