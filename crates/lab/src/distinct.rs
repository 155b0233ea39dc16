//! Many different guests from one: modules and components with code and data of their own.
//!
//! ```text
//!  component ──▶ its largest core module ──▶ + one type, functions, data ──▶ component
//! ```
//!
//! What is added is compiled, mapped and counted as a guest's own, and no two have the same. It is never called, so that all
//! of them answer as the one that they were made from: what is measured is what different guests cost, not what they do.

use std::ops::Range;

/// What one gets beside what it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filling {
    /// Functions, of about 1 KiB of machine code each.
    pub functions: u32,
    /// Bytes of data that its memory begins with.
    pub data_bytes: usize,
}

impl Default for Filling {
    /// What makes a small guest one of about 150 KB of compiled code.
    fn default() -> Self {
        Self {
            functions: 80,
            data_bytes: 8 << 10,
        }
    }
}

/// It is no WebAssembly that this can add to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the guest is no module or component with code and a memory of its own")]
pub struct NoGuest;

const HEADER_BYTES: usize = 8;
const PAGE_BYTES: usize = 64 << 10;

/// Sections of a core module, in their order.
const TYPES: u8 = 1;
const FUNCTIONS: u8 = 3;
const MEMORIES: u8 = 5;
const DATA_COUNT: u8 = 12;
const CODE: u8 = 10;
const DATA: u8 = 11;
/// A core module in a component.
const CORE_MODULE: u8 = 1;

/// Operations of one function.
const OPERATIONS: u32 = 60;

/// The guest of this number.
///
/// # Errors
///
/// When there is nothing that can be added to.
pub fn distinct(guest: &[u8], number: u64, filling: Filling) -> Result<Vec<u8>, NoGuest> {
    let is_component = guest.get(6) == Some(&1);
    if !is_component {
        return fill(guest, number, filling);
    }
    let sections = sections(guest)?;
    let modules = sections.iter().filter(|section| section.id == CORE_MODULE);
    let largest = modules.max_by_key(|section| section.payload.len());
    let largest = largest.ok_or(NoGuest)?;
    let filled = fill(&guest[largest.payload.clone()], number, filling)?;
    let mut made = guest[..largest.start].to_vec();
    write_section(&mut made, CORE_MODULE, &filled);
    made.extend_from_slice(&guest[largest.payload.end..]);
    Ok(made)
}

/// One section, and where it lies.
struct Section {
    id: u8,
    start: usize,
    payload: Range<usize>,
}

fn sections(bytes: &[u8]) -> Result<Vec<Section>, NoGuest> {
    let mut sections = Vec::new();
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let start = at;
        let id = bytes[at];
        at += 1;
        let length = read_number(bytes, &mut at)? as usize;
        let end = at.checked_add(length).filter(|end| *end <= bytes.len());
        let payload = at..end.ok_or(NoGuest)?;
        at = payload.end;
        sections.push(Section { id, start, payload });
    }
    Ok(sections)
}

/// A module with more in it.
fn fill(module: &[u8], number: u64, filling: Filling) -> Result<Vec<u8>, NoGuest> {
    let mut made = module.get(..HEADER_BYTES).ok_or(NoGuest)?.to_vec();
    let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut type_index, mut data_at) = (None, None);
    let (mut has_data, mut has_code) = (false, false);
    for section in sections(module)? {
        let payload = &module[section.payload];
        let payload = match section.id {
            TYPES => {
                type_index = Some(count_of(payload)?);
                // A function of no parameters that gives an i32.
                with_more(payload, 1, &[0x60, 0, 1, 0x7f])?
            }
            FUNCTIONS => {
                let mut index = Vec::new();
                write_number(&mut index, type_index.ok_or(NoGuest)?);
                let more = index.repeat(filling.functions as usize);
                with_more(payload, filling.functions, &more)?
            }
            MEMORIES => {
                let (payload, at) = with_room(payload, filling.data_bytes)?;
                data_at = Some(at);
                payload
            }
            DATA_COUNT => {
                let mut more = Vec::new();
                write_number(&mut more, count_of(payload)? + 1);
                more
            }
            CODE => {
                let bodies = (0..filling.functions).flat_map(|_| body(&mut random));
                let bodies: Vec<u8> = bodies.collect();
                with_more(payload, filling.functions, &bodies)?
            }
            DATA => {
                has_data = true;
                let at = data_at.ok_or(NoGuest)?;
                with_more(payload, 1, &segment(at, filling.data_bytes, &mut random))?
            }
            _ => payload.to_vec(),
        };
        has_code |= section.id == CODE;
        write_section(&mut made, section.id, &payload);
    }
    if !has_data && has_code {
        let at = data_at.ok_or(NoGuest)?;
        let only = segment(at, filling.data_bytes, &mut random);
        write_section(&mut made, DATA, &with_more(&[0], 1, &only)?);
        has_data = true;
    }
    has_data.then_some(made).ok_or(NoGuest)
}

/// A vector with more items at its end.
fn with_more(vector: &[u8], count: u32, items: &[u8]) -> Result<Vec<u8>, NoGuest> {
    let mut at = 0;
    let before = read_number(vector, &mut at)?;
    let mut made = Vec::with_capacity(vector.len() + items.len() + 1);
    write_number(&mut made, before + count);
    made.extend_from_slice(&vector[at..]);
    made.extend_from_slice(items);
    Ok(made)
}

fn count_of(vector: &[u8]) -> Result<u32, NoGuest> {
    read_number(vector, &mut 0)
}

/// A section of one memory that begins with so many bytes more, and where these lie.
fn with_room(memories: &[u8], bytes: usize) -> Result<(Vec<u8>, u32), NoGuest> {
    let mut at = 0;
    if read_number(memories, &mut at)? != 1 {
        return Err(NoGuest);
    }
    let flags = *memories.get(at).ok_or(NoGuest)?;
    at += 1;
    let least = read_number(memories, &mut at)?;
    let more = bytes.div_ceil(PAGE_BYTES) as u32;
    let mut made = vec![1, flags];
    write_number(&mut made, least + more);
    if flags & 1 != 0 {
        let most = read_number(memories, &mut at)?;
        write_number(&mut made, most.max(least + more));
    }
    Ok((made, least * PAGE_BYTES as u32))
}

/// A segment of data that is there when an instance begins.
fn segment(at: u32, bytes: usize, random: &mut Random) -> Vec<u8> {
    let mut segment = vec![0, 0x41];
    write_signed(&mut segment, at as i32);
    segment.push(0x0b);
    write_number(&mut segment, bytes as u32);
    segment.extend((0..bytes).map(|_| random.next() as u8));
    segment
}

/// A function that computes something of its own.
fn body(random: &mut Random) -> Vec<u8> {
    const CONST: u8 = 0x41;
    const LOAD: [u8; 3] = [0x28, 2, 0];
    /// Of i32: add, sub, mul, and, or, xor, rotate.
    const OPERATORS: [u8; 7] = [0x6a, 0x6b, 0x6c, 0x71, 0x72, 0x73, 0x77];
    let mut body = vec![0, CONST];
    write_signed(&mut body, random.next() as i32);
    for _ in 0..OPERATIONS {
        // What lies at some place of the first pages: bounds are checked.
        body.push(CONST);
        write_signed(&mut body, (random.next() & 0xfffc) as i32);
        body.extend_from_slice(&LOAD);
        body.push(OPERATORS[random.next() as usize % OPERATORS.len()]);
        body.push(CONST);
        write_signed(&mut body, random.next() as i32);
        body.push(OPERATORS[random.next() as usize % OPERATORS.len()]);
    }
    body.push(0x0b);
    let mut sized = Vec::new();
    write_number(&mut sized, body.len() as u32);
    sized.extend(body);
    sized
}

fn write_section(out: &mut Vec<u8>, id: u8, payload: &[u8]) {
    out.push(id);
    write_number(out, payload.len() as u32);
    out.extend_from_slice(payload);
}

/// Unsigned LEB128, of 32 bits.
fn read_number(bytes: &[u8], at: &mut usize) -> Result<u32, NoGuest> {
    let mut number = 0u64;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(*at).ok_or(NoGuest)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(number).map_err(|_| NoGuest);
        }
    }
    Err(NoGuest)
}

fn write_number(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Signed LEB128.
fn write_signed(out: &mut Vec<u8>, mut number: i32) {
    loop {
        let byte = number as u8 & 0x7f;
        number >>= 7;
        let is_last = (number == 0 && byte & 0x40 == 0) || (number == -1 && byte & 0x40 != 0);
        out.push(if is_last { byte } else { byte | 0x80 });
        if is_last {
            return;
        }
    }
}

/// Numbers that look random and are always the same (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = r#"(module
        (memory (export "memory") 1)
        (func (export "answer") (result i32) (i32.load (i32.const 8)))
        (data (i32.const 8) "\2a\00\00\00"))"#;

    fn filling() -> Filling {
        Filling::default()
    }

    #[test]
    fn each_is_another_and_the_same_each_time() {
        let module = wat::parse_str(MODULE).unwrap();
        let made = |number| distinct(&module, number, filling()).unwrap();
        assert_eq!(made(7), made(7));
        assert_ne!(made(7), made(8));
        assert!(made(7).len() > module.len() + 8 * 1024 + 60 * 80);
        wasmparser::validate(&made(7)).expect("what is added is valid");
    }

    /// A small filter has no data of its own.
    #[test]
    fn a_module_without_data_gets_some() {
        let text = r#"(module (memory 1) (func (export "answer") (result i32) (i32.const 42)))"#;
        let module = wat::parse_str(text).unwrap();
        let made = distinct(&module, 1, filling()).unwrap();
        assert!(made.len() > module.len() + 8 * 1024);
        wasmparser::validate(&made).expect("what is added is valid");
    }

    #[test]
    fn a_component_is_as_it_was_but_for_its_largest_module() {
        let text = format!(
            r#"(component (core module $small (memory 1) (data (i32.const 0) "a")) {} (core instance (instantiate $m)))"#,
            MODULE.replace("(module", "(core module $m")
        );
        let component = wat::parse_str(text).unwrap();
        let made = distinct(&component, 1, filling()).unwrap();
        let (before, after) = (sections(&component).unwrap(), sections(&made).unwrap());
        assert_eq!(before.len(), after.len());
        let changed: Vec<_> = before
            .iter()
            .zip(&after)
            .filter(|(a, b)| component[a.payload.clone()] != made[b.payload.clone()])
            .collect();
        assert_eq!(changed.len(), 1);
        wasmparser::validate(&made).expect("what is added is valid");
    }

    #[test]
    fn what_it_cannot_add_to_is_refused() {
        let empty = wat::parse_str("(module)").unwrap();
        assert_eq!(distinct(&empty, 1, filling()), Err(NoGuest));
        assert_eq!(distinct(b"\0asm\x0d\0\x01\0", 1, filling()), Err(NoGuest));
        assert_eq!(
            distinct(b"\0asm\x01\0\0\0\x01\xff", 1, filling()),
            Err(NoGuest)
        );
        assert_eq!(distinct(b"", 1, filling()), Err(NoGuest));
    }
}
