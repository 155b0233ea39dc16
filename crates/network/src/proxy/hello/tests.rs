use super::*;

/// A ClientHello's body with these extensions; without any where there are none.
fn body(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend(vector_u8(&[9; 32]));
    body.extend(vector_u16(&[0x13, 0x01, 0x13, 0x02]));
    body.extend(vector_u8(&[0]));
    if !extensions.is_empty() {
        let mut list = Vec::new();
        for (kind, content) in extensions {
            list.extend(kind.to_be_bytes());
            list.extend(vector_u16(content));
        }
        body.extend(vector_u16(&list));
    }
    body
}

fn vector_u8(content: &[u8]) -> Vec<u8> {
    [&[u8::try_from(content.len()).unwrap()], content].concat()
}

fn vector_u16(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&length[..], content].concat()
}

fn name_list(names: &[&str]) -> Vec<u8> {
    let entry = |name: &&str| [vec![HOST_NAME], vector_u16(name.as_bytes())].concat();
    vector_u16(&names.iter().flat_map(entry).collect::<Vec<_>>())
}

fn server_name(name: &str) -> (u16, Vec<u8>) {
    (SERVER_NAME, name_list(&[name]))
}

fn message(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[CLIENT_HELLO], &length[1..], body].concat()
}

fn record(content: &[u8]) -> Vec<u8> {
    [&[HANDSHAKE_RECORD, 3, 1][..], &vector_u16(content)].concat()
}

fn hello_with(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    record(&message(&body(extensions)))
}

/// A ClientHello for this host, in one record.
pub(in crate::proxy) fn hello(name: &str) -> Vec<u8> {
    hello_with(&[
        (10, vec![0, 2, 0, 29]),
        server_name(name),
        (43, vec![2, 3, 4]),
    ])
}

/// The same with `encrypted_client_hello`.
pub(in crate::proxy) fn encrypted_hello(name: &str) -> Vec<u8> {
    hello_with(&[server_name(name), (ENCRYPTED[0], vec![0; 64])])
}

/// A ClientHello without a name.
pub(in crate::proxy) fn nameless_hello() -> Vec<u8> {
    hello_with(&[(43, vec![2, 3, 4])])
}

fn read(bytes: &[u8]) -> String {
    match read_hello(bytes) {
        Ok(Some(name)) => name.to_string(),
        Ok(None) => "more".into(),
        Err(fault) => format!("{fault:?}"),
    }
}

#[test]
fn the_name_in_a_hello() {
    assert_eq!(read(&hello("a.example")), "a.example");
    assert_eq!(read(&hello("A.EXAMPLE")), "a.example");
    assert_eq!(read(&hello_with(&[server_name("a.example")])), "a.example");
    let mut with_early_data = hello("a.example");
    with_early_data.extend([23, 3, 3, 0, 4, 1, 2, 3, 4]);
    assert_eq!(read(&with_early_data), "a.example");
}

#[test]
fn a_hello_in_parts() {
    let whole = hello("a.example");
    for length in 0..whole.len() {
        assert_eq!(read(&whole[..length]), "more", "{length}");
    }
    let message = message(&body(&[server_name("a.example")]));
    for size in 1..message.len() {
        let records: Vec<u8> = message.chunks(size).flat_map(record).collect();
        assert_eq!(read(&records), "a.example", "in records of {size}");
        assert_eq!(read(&records[..records.len() - 1]), "more");
    }
}

#[test]
fn what_is_no_hello() {
    let good = message(&body(&[server_name("a.example")]));
    let damaged = |index: usize, value: u8| {
        let mut bytes = record(&good);
        bytes[index] = value;
        bytes
    };
    let name = |list: Vec<u8>| hello_with(&[(SERVER_NAME, list)]);
    let mut surplus = good.clone();
    surplus.push(0);
    let mut unknown_kind = name_list(&["a.example"]);
    unknown_kind[2] = 1;
    for (bytes, fault) in [
        (b"GET / HTTP/1.1\r\n".to_vec(), "NotTls"),
        (b"SSH-2.0-x\r\n".to_vec(), "NotTls"),
        (vec![0x80, 0x2e, 1, 3, 1], "NotTls"),
        (vec![0], "NotTls"),
        (vec![23, 3, 3, 0, 1, 0], "NotTls"),
        (damaged(1, 2), "NotTls"),
        (damaged(5, 2), "NotTls"),
        (record(&[]), "Malformed"),
        (vec![22, 3, 1, 0x40, 1], "Malformed"),
        (record(&surplus), "Malformed"),
        (record(&message(&[])), "Malformed"),
        (record(&message(&body(&[])[..40])), "Malformed"),
        (
            record(&message(
                &[body(&[server_name("a.example")]), vec![0]].concat(),
            )),
            "Malformed",
        ),
        (nameless_hello(), "NoName"),
        (record(&message(&body(&[]))), "NoName"),
        (
            hello_with(&[server_name("a.example"), server_name("a.example")]),
            "Malformed",
        ),
        (
            hello_with(&[server_name("a.example"), server_name("b.example")]),
            "Malformed",
        ),
        (name(name_list(&["a.example", "b.example"])), "Malformed"),
        (name(name_list(&[])), "Malformed"),
        (name(vec![]), "Malformed"),
        (name(unknown_kind), "Malformed"),
        (
            name([name_list(&["a.example"]), vec![0]].concat()),
            "Malformed",
        ),
        (
            name(vector_u16(
                &[vec![HOST_NAME], vector_u16(&[0xff, 0xfe])].concat(),
            )),
            "Malformed",
        ),
        (hello("127.0.0.1"), "OtherName(\"127.0.0.1\")"),
        (hello("a.example."), "OtherName(\"a.example.\")"),
        (hello(""), "OtherName(\"\")"),
        (hello("a.example\0.b"), "OtherName(\"a.example\\0.b\")"),
        (encrypted_hello("a.example"), "Encrypted"),
        (
            hello_with(&[server_name("a.example"), (ENCRYPTED[1], vec![])]),
            "Encrypted",
        ),
    ] {
        assert_eq!(read(&bytes), fault, "{bytes:?}");
    }
}

#[test]
fn a_hello_that_is_too_long() {
    let announced = record(&[CLIENT_HELLO, 0xff, 0xff, 0xff]);
    assert_eq!(read(&announced), "TooLong");
    // One byte to a record: five more for each.
    let message = message(&body(&[server_name("a.example"), (21, vec![0; 15_000])]));
    let records: Vec<u8> = message.chunks(1).flat_map(record).collect();
    assert_eq!(read(&records[..MAX_HELLO_BYTES - 1]), "more");
    assert_eq!(read(&records[..MAX_HELLO_BYTES]), "TooLong");
    let few: Vec<u8> = message.chunks(4096).flat_map(record).collect();
    assert_eq!(read(&few), "a.example");
}

/// One damaged byte never makes another name of it than one that differs in that byte.
#[test]
fn damaged_hellos_do_no_harm() {
    let good = hello("a.example");
    for index in 0..good.len() {
        for value in 0..=u8::MAX {
            let mut damaged = good.clone();
            damaged[index] = value;
            if let Ok(Some(name)) = read_hello(&damaged) {
                let same = |pair: &(u8, u8)| pair.0 != pair.1;
                let differing = name
                    .as_str()
                    .bytes()
                    .zip(*b"a.example")
                    .filter(same)
                    .count();
                assert!(name.as_str().len() == 9 && differing <= 1, "{name}");
            }
        }
    }
}
