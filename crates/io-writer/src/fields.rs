//! What makes a dump easy to open: `fields.h5`, in which each variable is one dataset though its
//! blocks lie in many part files, and `dumps.xdmf`, which tells `ParaView` and `VisIt` of all dumps.

use crate::boxes;
use crate::folder;
use crate::hdf5::{Attributed, Hdf5, Hdf5Error, Virtual};
use crate::part;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use wattio_io::block::{Attributes, Type, Value};

/// The file with whole fields of a dump.
pub const FILE: &str = "fields.h5";
/// The file that tells of all dumps.
pub const INDEX: &str = "dumps.xdmf";

/// A block as a note tells of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Found {
    name: String,
    rank: usize,
    shape: Vec<u64>,
    dtype: String,
    global_shape: Option<Vec<u64>>,
    offset: Option<Vec<u64>>,
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
}

/// A field that a dump has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    name: String,
    shape: Vec<u64>,
    kind: Type,
}

/// What the index tells of a dump.
#[derive(Clone, Debug, PartialEq)]
pub struct Indexed {
    /// The step.
    pub step: u64,
    /// The simulated time, where the program told it.
    pub time: Option<f64>,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// Make `fields.h5` in a folder whose part files are whole. A variable whose blocks have no place in
/// a field is a group of its ranks' blocks there, as in part files. Elements of which no block is there
/// are NaN, or 0 where there is none. With `sync`, the file is on the disk when this comes back.
///
/// # Errors
///
/// In words: HDF5's, or that ranks disagree about a variable.
pub fn make(
    library: &Hdf5,
    folder: &Path,
    origin: (&str, u64),
    attributes: &Attributes,
    parts: &[(CString, Vec<Found>)],
    sync: bool,
) -> Result<Vec<Field>, String> {
    let path = folder.join(FILE);
    check(parts)?;
    let mut members: BTreeMap<&str, Vec<(&CStr, &Found)>> = BTreeMap::new();
    for (file, blocks) in parts {
        for block in blocks {
            members.entry(&block.name).or_default().push((file, block));
        }
    }
    let write = || -> Result<Vec<Field>, Hdf5Error> {
        let file = library.create(&path)?;
        file.set_integers("wattio_hpcio", &[part::VERSION], true)?;
        file.set_integers("step", &[origin.1 as i64], true)?;
        file.set_text("job", origin.0)?;
        part::set(&file, attributes)?;
        let mut fields = Vec::new();
        for (name, blocks) in members {
            let first = blocks[0].1;
            let Some(kind) = kind(&first.dtype) else { continue };
            if let Some(shape) = &first.global_shape {
                let mut all = library.virtual_(library.kind(kind), shape)?;
                for part in blocks.chunk_by(|one, other| one.0 == other.0) {
                    add_part(&mut all, part)?;
                }
                let made = file.made_of(name, library.kind(kind), shape, &all)?;
                part::set(&made, &together(&blocks))?;
                fields.push(Field { name: name.to_owned(), shape: shape.clone(), kind });
                continue;
            }
            file.group(name)?;
            for (source, one) in blocks {
                let Some(kind) = self::kind(&one.dtype) else { continue };
                let kind = library.kind(kind);
                let mut alone = library.virtual_(kind, &one.shape)?;
                add(&mut alone, source, one, &vec![0; one.shape.len()])?;
                let name = part::dataset_name(name, one.rank);
                let made = file.made_of(&name, kind, &one.shape, &alone)?;
                part::set(&made, &together(&[(source, one)]))?;
            }
        }
        file.close()?;
        Ok(fields)
    };
    let fields = write().map_err(|error| part::explain(&path, &error))?;
    if sync {
        let synced = std::fs::File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(|error| part::told(&path, error.raw_os_error().unwrap_or_default()))?;
    }
    Ok(fields)
}

/// The attributes of a variable, whichever ranks have set them: of values that differ, the lowest
/// rank's counts.
fn together(blocks: &[(&CStr, &Found)]) -> Attributes {
    let mut all: BTreeMap<&String, (usize, &Value)> = BTreeMap::new();
    for (_, block) in blocks {
        for (name, value) in &block.attributes {
            let known = all.entry(name).or_insert((block.rank, value));
            if block.rank < known.0 {
                *known = (block.rank, value);
            }
        }
    }
    all.into_iter().map(|(name, (_, value))| (name.clone(), value.clone())).collect()
}

/// Tell of the blocks of a part file that are a field's: what many of them fill together is a dataset there.
fn add_part(all: &mut Virtual<'_>, part: &[(&CStr, &Found)]) -> Result<(), Hdf5Error> {
    let blocks: Vec<&Found> =
        part.iter().map(|one| one.1).filter(|one| !one.shape.contains(&0)).collect();
    let places =
        blocks.iter().map(|one| (one.offset.as_deref().unwrap_or_default(), &one.shape[..]));
    for filled in boxes::filled(places) {
        let first = blocks[filled.blocks[0]];
        if filled.blocks.len() >= boxes::BLOCKS_MIN {
            let name = part::box_name(&first.name, first.rank);
            all.add(part[0].0, &name, &filled.offset, &filled.count)?;
            continue;
        }
        for at in filled.blocks {
            add(all, part[0].0, blocks[at], blocks[at].offset.as_deref().unwrap_or_default())?;
        }
    }
    Ok(())
}

/// Tell of a block; one without elements is nowhere.
fn add(all: &mut Virtual<'_>, file: &CStr, block: &Found, offset: &[u64]) -> Result<(), Hdf5Error> {
    if block.shape.contains(&0) {
        return Ok(());
    }
    all.add(file, &part::dataset_name(&block.name, block.rank), offset, &block.shape)
}

/// Whether ranks agree about each variable: its type, and the field that it is a part of.
fn check(parts: &[(CString, Vec<Found>)]) -> Result<(), String> {
    let mut first: BTreeMap<&str, &Found> = BTreeMap::new();
    for block in parts.iter().flat_map(|(_, blocks)| blocks) {
        let other = first.entry(&block.name).or_insert(block);
        if (&other.dtype, &other.global_shape) == (&block.dtype, &block.global_shape) {
            continue;
        }
        let told = |one: &Found| match &one.global_shape {
            Some(shape) => format!("{} of {shape:?}", one.dtype),
            None => format!("{} without a place in a field", one.dtype),
        };
        return Err(format!(
            "ranks {} and {} disagree about variable {}: {}, and {}",
            other.rank,
            block.rank,
            block.name,
            told(other),
            told(block)
        ));
    }
    Ok(())
}

fn kind(text: &str) -> Option<Type> {
    Type::ALL.into_iter().find(|kind| kind.text() == text)
}

/// What a folder's whole dumps are, by their manifests; those that tell nothing are left out.
#[must_use]
pub fn index(output: &folder::Output) -> Vec<Indexed> {
    let Ok(entries) = std::fs::read_dir(output.path()) else { return Vec::new() };
    let folders = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut found: Vec<Indexed> =
        folders.filter(|path| path.join(FILE).exists()).filter_map(indexed).collect();
    found.sort_by_key(|one| one.step);
    found
}

#[derive(Deserialize)]
struct Manifest {
    step: u64,
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
    parts: Vec<ManifestPart>,
}

#[derive(Deserialize)]
struct ManifestPart {
    blocks: Vec<Found>,
}

fn indexed(path: PathBuf) -> Option<Indexed> {
    let text = std::fs::read(path.join(folder::MANIFEST)).ok()?;
    let manifest: Manifest = serde_json::from_slice(&text).ok()?;
    if folder::name(manifest.step) != path.file_name()?.to_str()? {
        return None;
    }
    let mut fields: Vec<Field> = Vec::new();
    for block in manifest.parts.iter().flat_map(|part| &part.blocks) {
        if let (Some(shape), Some(kind)) = (&block.global_shape, kind(&block.dtype))
            && !fields.iter().any(|one| one.name == block.name)
        {
            fields.push(Field { name: block.name.clone(), shape: shape.clone(), kind });
        }
    }
    fields.sort_by(|one, other| one.name.cmp(&other.name));
    let time = match manifest.attributes.get("time") {
        Some(Value::Number(time)) => Some(*time),
        _ => None,
    };
    Some(Indexed { step: manifest.step, time, fields })
}

/// The index of dumps as XDMF: fields of one shape are one series of grids. Fields of more than three
/// axes are left out, as XDMF has no regular grid of them.
#[must_use]
pub fn xdmf(dumps: &[Indexed]) -> String {
    let mut shapes: Vec<&Vec<u64>> =
        dumps.iter().flat_map(|dump| dump.fields.iter().map(|field| &field.shape)).collect();
    shapes.sort();
    shapes.dedup();
    shapes.retain(|shape| (1..=3).contains(&shape.len()) && !shape.contains(&0));
    let mut text = String::from("<?xml version=\"1.0\"?>\n<Xdmf Version=\"3.0\">\n<Domain>\n");
    for shape in shapes {
        series(&mut text, shape, dumps);
    }
    text.push_str("</Domain>\n</Xdmf>\n");
    text
}

fn series(text: &mut String, shape: &[u64], dumps: &[Indexed]) {
    let name = joined(shape, "x");
    // Readers want two axes or three.
    let grid: Vec<u64> = if shape.len() == 1 { vec![1, shape[0]] } else { shape.to_vec() };
    let (axes, dimensions) = (grid.len(), joined(&grid, " "));
    let (zeros, ones) = (joined(&vec![0; axes], " "), joined(&vec![1; axes], " "));
    let (mesh, geometry) =
        if axes == 3 { ("3DCoRectMesh", "ORIGIN_DXDYDZ") } else { ("2DCoRectMesh", "ORIGIN_DXDY") };
    // Writing into a string does not fail.
    let _ = writeln!(
        text,
        "<Grid Name=\"{name}\" GridType=\"Collection\" CollectionType=\"Temporal\">"
    );
    for dump in dumps {
        let fields: Vec<&Field> = dump.fields.iter().filter(|field| field.shape == shape).collect();
        if fields.is_empty() {
            continue;
        }
        #[allow(clippy::cast_precision_loss)]
        let time = dump.time.unwrap_or(dump.step as f64);
        let folder = folder::name(dump.step);
        let _ = writeln!(
            text,
            "<Grid Name=\"{folder}\" GridType=\"Uniform\">\n<Time Value=\"{time}\"/>\n\
             <Topology TopologyType=\"{mesh}\" Dimensions=\"{dimensions}\"/>\n\
             <Geometry GeometryType=\"{geometry}\">\n\
             <DataItem Dimensions=\"{axes}\" NumberType=\"Float\" Format=\"XML\">{zeros}</DataItem>\n\
             <DataItem Dimensions=\"{axes}\" NumberType=\"Float\" Format=\"XML\">{ones}</DataItem>\n\
             </Geometry>"
        );
        for field in fields {
            let (number, precision) = number_type(field.kind);
            let _ = writeln!(
                text,
                "<Attribute Name=\"{}\" AttributeType=\"Scalar\" Center=\"Node\">\n\
                 <DataItem Dimensions=\"{dimensions}\" NumberType=\"{number}\" \
                 Precision=\"{precision}\" Format=\"HDF\">{folder}/{FILE}:/{}</DataItem>\n\
                 </Attribute>",
                field.name, field.name
            );
        }
        text.push_str("</Grid>\n");
    }
    text.push_str("</Grid>\n");
}

fn number_type(kind: Type) -> (&'static str, u64) {
    let name = match kind {
        Type::Float32 | Type::Float64 => "Float",
        Type::Int8 => "Char",
        Type::Uint8 => "UChar",
        // VTK's reader knows no unsigned numbers of 64 bits, and reads others in their place. HDF5 brings
        // those that are too large for a signed one to its largest.
        Type::Int16 | Type::Int32 | Type::Int64 | Type::Uint64 => "Int",
        Type::Uint16 | Type::Uint32 => "UInt",
    };
    (name, kind.bytes())
}

fn joined(numbers: &[u64], between: &str) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_disagree_about_a_variable_are_named() {
        let block = |rank: usize, dtype: &str, shape: &str| {
            let text = format!(
                "{{\"name\":\"u\",\"rank\":{rank},\"shape\":[2],\"dtype\":\"{dtype}\"{shape}}}"
            );
            serde_json::from_str::<Found>(&text).unwrap()
        };
        let placed = ",\"global_shape\":[4],\"offset\":[0]";
        let parts = |one: Found, other: Found| {
            vec![(c"a".to_owned(), vec![one]), (c"b".to_owned(), vec![other])]
        };
        assert!(check(&parts(block(0, "<f4", placed), block(1, "<f4", placed))).is_ok());
        for (dtype, shape) in [("<f8", placed), ("<f4", ""), ("<f4", ",\"global_shape\":[5]")] {
            let told = check(&parts(block(0, "<f4", placed), block(1, dtype, shape))).unwrap_err();
            assert!(
                told.starts_with("ranks 0 and 1 disagree about variable u: <f4 of [4]"),
                "{told}"
            );
        }
    }

    #[test]
    fn the_index_tells_of_each_dump_and_field() {
        let field = |name: &str, shape: &[u64]| Field {
            name: name.to_owned(),
            shape: shape.to_vec(),
            kind: Type::Float32,
        };
        let dumps = [
            Indexed { step: 1, time: Some(0.5), fields: vec![field("u", &[4, 5, 6])] },
            Indexed { step: 2, time: None, fields: vec![field("u", &[4, 5, 6]), field("p", &[7])] },
        ];
        let text = xdmf(&dumps);
        for words in [
            "dump-00000001/fields.h5:/u",
            "dump-00000002/fields.h5:/p",
            "<Time Value=\"0.5\"/>",
            "<Time Value=\"2\"/>",
            "Dimensions=\"4 5 6\"",
            "Dimensions=\"1 7\"",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
