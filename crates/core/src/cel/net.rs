//! Functions of IP addresses and ranges (apiserver `pkg/cel/library/ip.go` and `cidr.go`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::failure::{no_overload, other};
use super::function::Function;
use super::lex::excerpt;
use super::value::CelValue;
use super::value::Evaluated;

/// Reads an address. `None` for other texts, for addresses with a zone, and for IPv4 addresses in the form of IPv6
/// (`::ffff:1.2.3.4`), as upstream.
pub(super) fn parse_ip(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        address => Some(address),
    }
}

/// Reads a range of addresses such as `10.0.0.0/8`: an address, and the number of leading bits that the range shares.
/// The address may have other bits too. `None` for other texts.
pub(super) fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address = parse_ip(address)?;
    let has_plain_digits =
        bits.bytes().all(|byte| byte.is_ascii_digit()) && (bits.len() == 1 || !bits.starts_with('0'));
    let bits: u8 = bits.parse().ok().filter(|_| has_plain_digits)?;
    (bits <= width(address)).then_some((address, bits))
}

/// The number of bits of an address: 32 or 128.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with zeros after its first `bits` bits.
fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            // `checked_shl` by all bits returns `None`. The mask of zero bits is 0.
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

/// Whether an address is link-local unicast (169.254.0.0/16 or fe80::/10): valid only within one network segment.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Evaluates a function whose only argument is an address. `rest`: other arguments, with which no function exists.
pub(super) fn call_ip<'a>(function: Function, address: IpAddr, rest: &[CelValue<'a>]) -> Evaluated<'a> {
    use Function as F;
    if !rest.is_empty() {
        return no_overload();
    }
    Ok(match function {
        F::Family => CelValue::Int(if address.is_ipv4() { 4 } else { 6 }),
        F::IsUnspecified => CelValue::Bool(address.is_unspecified()),
        F::IsLoopback => CelValue::Bool(address.is_loopback()),
        F::IsLinkLocalMulticast => CelValue::Bool(match address {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        }),
        F::IsLinkLocalUnicast => CelValue::Bool(is_link_local(address)),
        F::IsGlobalUnicast => CelValue::Bool(
            !address.is_unspecified()
                && !address.is_loopback()
                && !address.is_multicast()
                && !is_link_local(address)
                && address != IpAddr::V4(Ipv4Addr::BROADCAST),
        ),
        _ => return no_overload(),
    })
}

/// Evaluates a function whose first argument is a range: an address, and the number of leading bits that the range
/// shares. `rest`: the other arguments. An argument that is an address or a range can be a text.
pub(super) fn call_cidr<'a>(function: Function, address: IpAddr, bits: u8, rest: &[CelValue<'a>]) -> Evaluated<'a> {
    use Function as F;
    // Whether the range contains the range of `other`; an address is a range of one address.
    let contains = |other: IpAddr, other_bits: u8| {
        width(other) == width(address) && other_bits >= bits && mask(other, bits) == mask(address, bits)
    };
    match (function, rest) {
        (F::Ip, []) => Ok(CelValue::Ip(address)),
        (F::PrefixLength, []) => Ok(CelValue::Int(i64::from(bits))),
        (F::Masked, []) => Ok(CelValue::Cidr(mask(address, bits), bits)),
        (F::ContainsIp, [CelValue::Ip(other)]) => Ok(CelValue::Bool(contains(*other, width(*other)))),
        (F::ContainsIp, [CelValue::Text(text)]) => match parse_ip(text) {
            Some(other) => Ok(CelValue::Bool(contains(other, width(other)))),
            None => other(format!("IP Address {:?} parse error during conversion from string", excerpt(text))),
        },
        (F::ContainsCidr, [CelValue::Cidr(other, other_bits)]) => Ok(CelValue::Bool(contains(*other, *other_bits))),
        (F::ContainsCidr, [CelValue::Text(text)]) => match parse_cidr(text) {
            Some((other, other_bits)) => Ok(CelValue::Bool(contains(other, other_bits))),
            None => other(format!("network address parse error during conversion from string: {:?}", excerpt(text))),
        },
        _ => no_overload(),
    }
}
