//! Socket addresses as a guest writes them: `struct sockaddr` and its length.

use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// `sizeof(struct sockaddr_storage)`: the kernel reads no more of any address.
pub(crate) const MOST_BYTES: usize = 128;

/// An address, copied out of the guest once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// `AF_INET`, `AF_INET6`.
    Internet(SocketAddr),
    /// `AF_UNSPEC`: for connect(2), none any more.
    Unspecified,
    /// Of a family that lies in the domain itself: a local socket's, netlink's.
    Inside(Vec<u8>),
}

impl Address {
    /// Reads the bytes as the kernel does.
    ///
    /// # Errors
    ///
    /// `EINVAL` when they are too few for their family.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Errno> {
        let family = u16::from_ne_bytes(*bytes.first_chunk().ok_or(Errno::INVAL)?);
        match i32::from(family) {
            libc::AF_INET => Ok(Self::Internet(parse_v4(bytes)?.into())),
            libc::AF_INET6 => Ok(Self::Internet(parse_v6(bytes)?.into())),
            libc::AF_UNSPEC => Ok(Self::Unspecified),
            _ => Ok(Self::Inside(bytes.to_vec())),
        }
    }
}

/// `struct sockaddr_in`: family, port, address, eight unused bytes, which must be there.
fn parse_v4(bytes: &[u8]) -> Result<SocketAddrV4, Errno> {
    let [_, _, p, q, a, b, c, d, ..] = *bytes.first_chunk::<16>().ok_or(Errno::INVAL)?;
    let port = u16::from_be_bytes([p, q]);
    Ok(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port))
}

/// `struct sockaddr_in6`: family, port, flow, address, and the scope, which RFC 2133 did not have.
/// The flow is dropped: a flow label can stand for a source route (`fl6_sock_lookup`).
fn parse_v6(bytes: &[u8]) -> Result<SocketAddrV6, Errno> {
    const WITHOUT_SCOPE: usize = 24;
    let whole = bytes.first_chunk::<WITHOUT_SCOPE>().ok_or(Errno::INVAL)?;
    let mut address = [0; 16];
    address.copy_from_slice(&whole[8..]);
    let scope = bytes[WITHOUT_SCOPE..]
        .first_chunk()
        .map_or(0, |scope| u32::from_ne_bytes(*scope));
    let port = u16::from_be_bytes([whole[2], whole[3]]);
    Ok(SocketAddrV6::new(address.into(), port, 0, scope))
}

/// The same place in the family that the guest's socket speaks: an address of version 4 goes to a
/// socket of version 6 in its mapped form.
pub(crate) fn in_family_of(asked: SocketAddr, decided: SocketAddr) -> SocketAddr {
    match (asked, decided.ip()) {
        (SocketAddr::V6(_), IpAddr::V4(address)) => {
            SocketAddr::new(address.to_ipv6_mapped().into(), decided.port())
        }
        _ => decided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    fn v4_bytes() -> Vec<u8> {
        let mut bytes = (libc::AF_INET as u16).to_ne_bytes().to_vec();
        bytes.extend([0x1f, 0x90, 127, 0, 0, 1]);
        bytes.resize(16, 0);
        bytes
    }

    fn v6_bytes(scope: Option<u32>) -> Vec<u8> {
        let mut bytes = (libc::AF_INET6 as u16).to_ne_bytes().to_vec();
        bytes.extend([0x1f, 0x90, 0xff, 0xff, 0xff, 0xff]);
        bytes.extend(Ipv6Addr::LOCALHOST.octets());
        bytes.extend(scope.into_iter().flat_map(u32::to_ne_bytes));
        bytes
    }

    #[test]
    fn internet_addresses_are_read_as_the_kernel_reads_them() {
        let v4 = Address::Internet("127.0.0.1:8080".parse().unwrap());
        assert_eq!(Address::parse(&v4_bytes()), Ok(v4.clone()));
        let mut longer = v4_bytes();
        longer.resize(MOST_BYTES, 0xaa);
        assert_eq!(Address::parse(&longer), Ok(v4));
        let v6 = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 8080, 0, 7);
        assert_eq!(
            Address::parse(&v6_bytes(Some(7))),
            Ok(Address::Internet(v6.into()))
        );
        let unscoped = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 8080, 0, 0);
        assert_eq!(
            Address::parse(&v6_bytes(None)),
            Ok(Address::Internet(unscoped.into()))
        );
    }

    #[test]
    fn what_is_too_short_for_its_family_is_invalid() {
        assert_eq!(Address::parse(&[]), Err(Errno::INVAL));
        assert_eq!(Address::parse(&[2]), Err(Errno::INVAL));
        assert_eq!(Address::parse(&v4_bytes()[..15]), Err(Errno::INVAL));
        assert_eq!(Address::parse(&v6_bytes(None)[..23]), Err(Errno::INVAL));
    }

    #[test]
    fn other_families_stay_inside() {
        assert_eq!(Address::parse(&[0, 0]), Ok(Address::Unspecified));
        let local = [1, 0, b'/', b'x', 0];
        assert_eq!(Address::parse(&local), Ok(Address::Inside(local.to_vec())));
    }

    #[test]
    fn no_bytes_whatever_make_it_panic() {
        for family in 0..=u8::MAX {
            for length in 0..=MOST_BYTES {
                let mut bytes = vec![family; length];
                bytes.iter_mut().skip(1).take(1).for_each(|byte| *byte = 0);
                let _ = Address::parse(&bytes);
            }
        }
    }

    #[test]
    fn version_4_goes_to_a_version_6_socket_in_mapped_form() {
        let v6: SocketAddr = "[::ffff:10.0.0.1]:80".parse().unwrap();
        let v4: SocketAddr = "10.0.0.1:80".parse().unwrap();
        assert_eq!(in_family_of(v6, v4), v6);
        assert_eq!(in_family_of(v4, v4), v4);
    }
}
