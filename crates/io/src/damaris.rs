//! Descriptions of data for Damaris: its XML files, as far as they say who writes, what, and where to.
//!
//! ```text
//! <simulation language="c">
//!   <architecture> <dedicated cores="1" nodes="0"/> <buffer size="67108864"/> </architecture>
//!   <data>
//!     <parameter name="NX" type="int" value="96"/>
//!     <layout name="cells" type="double" dimensions="NX,NY/size" global="NX,NY"/>
//!     <group name="wind"> <variable name="u" layout="cells" unit="m/s"/> </group>
//!   </data>
//!   <storage> <store name="s" type="HDF5"> <option key="FilesPath">dumps</option> </store> </storage>
//! </simulation>
//! ```
//!
//! Extents are those of C's order, or of Fortran's with `language="fortran"`. What is for Damaris's
//! servers alone (queues, placement, actions, scripts, logs) has no counterpart and is passed over.

mod expression;

use self::expression::{EXTENT_MAX, check, evaluate};
use crate::block::{Attributes, Type, Value, set_attribute};
use crate::config::{Approach, Config, Existing};
use crate::error::{Error, Result, read_text};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wattio_units::Bytes;

/// Nodes of a file, at most.
const NODES_MAX: u32 = 1 << 20;
/// Parentheses within each other, at most.
const DEPTH_MAX: usize = 64;

/// What a file says.
#[derive(Clone, Debug)]
pub struct Description {
    cores: usize,
    nodes: usize,
    buffer: Option<f64>,
    output: Option<PathBuf>,
    fortran: bool,
    parameters: BTreeMap<String, Parameter>,
    /// Parameters that are text, which programs give and take, and no extent depends on.
    texts: BTreeMap<String, String>,
    layouts: BTreeMap<String, Layout>,
    variables: BTreeMap<String, Described>,
    /// Whether variables say where they are stored: then those that do not are written nowhere.
    selective: bool,
}

/// A number that extents may depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// What it is, and what a program gives and takes.
    pub kind: Type,
    /// Its value, one that the type has.
    pub value: Number,
}

/// What a program gets back bit for bit: no `f64` holds all whole numbers of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Of a type of integers.
    Whole(i64),
    /// Of `float` and `double`.
    Real(f64),
}

impl Number {
    /// The value of a text, or what is wrong with it.
    fn parse(kind: Type, text: &str) -> std::result::Result<Self, String> {
        let real: Option<f64> = text.parse().ok();
        let (low, high) = match kind {
            Type::Float32 | Type::Float64 => {
                let value = real.ok_or_else(|| "is not a number".to_owned())?;
                let most = f64::from(f32::MAX);
                if kind == Type::Float32 && value.is_finite() && value.abs() > most {
                    return Err(format!("allowed for a float: {:e} to {most:e}", -most));
                }
                return Ok(Self::Real(value));
            }
            Type::Int8 | Type::Uint8 => (i8::MIN.into(), i8::MAX.into()),
            Type::Int16 | Type::Uint16 => (i16::MIN.into(), i16::MAX.into()),
            Type::Int32 | Type::Uint32 => (i32::MIN.into(), i32::MAX.into()),
            Type::Int64 | Type::Uint64 => (i64::MIN, i64::MAX),
        };
        let whole = match text.parse::<i128>() {
            Ok(whole) => whole,
            // As 1e6, which is one.
            Err(_) => match real.ok_or_else(|| "is not a number".to_owned())? {
                value if value.fract() == 0.0 && value.abs() <= EXTENT_MAX => value as i128,
                _ => return Err("is not a whole number".to_owned()),
            },
        };
        i64::try_from(whole)
            .ok()
            .filter(|whole| (low..=high).contains(whole))
            .map(Self::Whole)
            .ok_or_else(|| format!("allowed: {low} to {high}"))
    }

    /// The nearest that an extent can depend on.
    #[allow(clippy::cast_precision_loss)]
    fn for_extents(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Real(value) => value,
        }
    }
}

#[derive(Clone, Debug)]
struct Layout {
    /// `None` for text, which can be described and not be written.
    kind: Option<Type>,
    dimensions: Vec<String>,
    global: Vec<String>,
    ghosts: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
struct Described {
    layout: String,
    attributes: Attributes,
    enabled: bool,
    store: Option<String>,
}

/// What of a variable the library has to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// What its elements are.
    pub kind: Type,
    /// The extents of a rank's block, row-major, with its ghost zones.
    pub count: Vec<u64>,
    /// Elements before and after the block's own along each axis, which are other blocks'.
    pub ghosts: Vec<(u64, u64)>,
    /// The extents of the global field, where the file tells them.
    pub whole: Option<Vec<u64>>,
    /// Unit and other attributes.
    pub attributes: Attributes,
    /// Whether it is there at all.
    pub enabled: bool,
    /// Whether it is written; else it is for plugins of Damaris's servers.
    pub stored: bool,
}

impl Shape {
    /// Whether elements of other blocks are among those of a block.
    #[must_use]
    pub fn has_ghosts(&self) -> bool {
        self.ghosts.iter().any(|&(before, after)| before + after > 0)
    }

    /// The extents of a block without its ghost zones.
    #[must_use]
    pub fn inner(&self) -> Vec<u64> {
        let pairs = self.count.iter().zip(&self.ghosts);
        pairs.map(|(&all, &(before, after))| all.saturating_sub(before + after)).collect()
    }

    /// Where the rows of a block's own elements begin among all, and how long they are; in elements,
    /// in order.
    #[must_use]
    pub fn rows(&self) -> (Vec<u64>, u64) {
        let inner = self.inner();
        let (Some(&length), Some(&(first, _))) = (inner.last(), self.ghosts.last()) else {
            return (vec![0], 1);
        };
        if inner.contains(&0) {
            return (Vec::new(), 0);
        }
        let mut starts = vec![first];
        let mut stride = self.count.last().copied().unwrap_or(1);
        for axis in (0..inner.len() - 1).rev() {
            let begin = self.ghosts[axis].0;
            let outer = (begin..begin + inner[axis]).map(|at| at * stride);
            starts = outer.flat_map(|at| starts.iter().map(move |one| at + one)).collect();
            stride *= self.count[axis];
        }
        (starts, length)
    }
}

impl Description {
    /// Read a file.
    ///
    /// # Errors
    ///
    /// `Input`: the file, the element, what is wrong.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = read_text(path)?;
        Self::parse(&text).map_err(|error| Error::Input(format!("{shown}: {error}")))
    }

    /// Read the text of a file as `read` does.
    ///
    /// # Errors
    ///
    /// As `read`, without the file's name.
    pub fn parse(text: &str) -> Result<Self> {
        let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options)
            .map_err(|error| Error::Input(format!("is not XML: {}", plain(&error.to_string()))))?;
        let root = document.root_element();
        let within = |name: &str| root.children().find(|one| one.tag_name().name() == name);
        // `wattio advise` prints the element alone.
        let architecture = Some(root)
            .filter(|root| root.tag_name().name() == "architecture")
            .or_else(|| within("architecture"))
            .ok_or_else(|| Error::Input("has no <architecture>".to_owned()))?;
        let dedicated = child(architecture, "dedicated").ok_or_else(|| {
            Error::Input(
                "<architecture>: has no <dedicated>, like files of old versions of Damaris"
                    .to_owned(),
            )
        })?;
        let buffer = child(architecture, "buffer").map(|one| number(one, "size")).transpose()?;
        let mut found = Self {
            cores: number(dedicated, "cores")?.unwrap_or_default(),
            nodes: number(dedicated, "nodes")?.unwrap_or_default(),
            #[allow(clippy::cast_precision_loss)]
            buffer: buffer.flatten().map(|bytes| bytes as f64),
            output: None,
            fortran: root
                .attribute("language")
                .is_some_and(|language| language.eq_ignore_ascii_case("fortran")),
            parameters: BTreeMap::new(),
            texts: BTreeMap::new(),
            layouts: BTreeMap::new(),
            variables: BTreeMap::new(),
            selective: false,
        };
        if let Some(data) = within("data") {
            found.group(data, "", 0, &Inherited { enabled: true, store: None })?;
        }
        for variable in found.variables.keys() {
            found.check_extents(variable)?;
        }
        let stores = stores(within("storage"))?;
        found.selective = found.variables.values().any(|one| one.store.is_some());
        found.output = found.folder(&stores)?;
        Ok(found)
    }

    /// The configuration that it stands for, and how many nodes only write: Damaris counts them in all.
    ///
    /// # Errors
    ///
    /// `Input`.
    pub fn config(&self) -> Result<(Config, Option<usize>)> {
        // A file has no word for it, and a program that runs again is to write again.
        let mut config = Config { existing: Existing::Overwrite, ..Config::default() };
        // Where there are both, Damaris looks at nodes alone.
        (config.approach, config.writers) = match (self.nodes, self.cores) {
            (0, 0) => (Approach::Tp, 1),
            (0, cores) => (Approach::Dc, cores),
            _ => (Approach::Dn, 1),
        };
        if let Some(bytes) = self.buffer {
            config.buffer = Bytes(bytes);
        }
        if let Some(output) = &self.output {
            config.output.clone_from(output);
        }
        config.check()?;
        Ok((config, (self.nodes > 0).then_some(self.nodes)))
    }

    /// A parameter.
    ///
    /// # Errors
    ///
    /// `Input` where there is none of that name.
    pub fn parameter(&mut self, name: &str) -> Result<&mut Parameter> {
        let known: Vec<String> = self.parameters.keys().chain(self.texts.keys()).cloned().collect();
        self.parameters.get_mut(name).ok_or_else(|| {
            Error::Input(format!(
                "parameter {name:?} is not known; there are: {}",
                plain(&known.join(", "))
            ))
        })
    }

    /// A parameter that is text, if there is one of that name.
    pub fn text(&mut self, name: &str) -> Option<&mut String> {
        self.texts.get_mut(name)
    }

    /// A variable, by its name with those of its groups, `group/name`, as parameters are now.
    ///
    /// # Errors
    ///
    /// `Input` where there is none of that name, or its extents cannot be.
    pub fn shape(&self, name: &str) -> Result<Shape> {
        let described = self.described(name)?;
        let layout = self.layout(name)?;
        let stored = described.store.is_some() || !self.selective;
        let kind = match layout.kind {
            Some(kind) => kind,
            // Of what is written nowhere nobody asks.
            None if !(described.enabled && stored) => Type::Int8,
            None => {
                return Err(Error::Input(format!(
                    "variable {name:?}: its layout {:?} is text, which cannot be written",
                    described.layout
                )));
            }
        };
        let whole = (!layout.global.is_empty()).then(|| self.extents(name, &layout.global));
        let count = self.extents(name, &layout.dimensions)?;
        let (before, after): (Vec<String>, Vec<String>) = layout.ghosts.iter().cloned().unzip();
        let (before, after) = (self.extents(name, &before)?, self.extents(name, &after)?);
        let mut ghosts: Vec<(u64, u64)> = before.into_iter().zip(after).collect();
        ghosts.resize(count.len(), (0, 0));
        if count.iter().zip(&ghosts).any(|(&all, &(before, after))| before + after > all) {
            return Err(Error::Input(format!(
                "variable {name:?}: its ghost zones {ghosts:?} are larger than its block {count:?}"
            )));
        }
        // With its ghost zones, of which no variable knows.
        let bytes = |all: u64, &size: &u64| all.checked_mul(size.max(1));
        if count.iter().try_fold(kind.bytes(), bytes).is_none_or(|all| all >= 1 << 60) {
            return Err(Error::Input(format!(
                "variable {name:?}: a block of {count:?} elements is too large"
            )));
        }
        Ok(Shape {
            kind,
            count,
            ghosts,
            whole: whole.transpose()?,
            attributes: described.attributes.clone(),
            enabled: described.enabled,
            stored,
        })
    }

    /// Whether there is a variable of that name.
    ///
    /// # Errors
    ///
    /// `Input` where there is none.
    pub fn check_variable(&self, name: &str) -> Result<()> {
        self.described(name).map(|_| ())
    }

    fn described(&self, name: &str) -> Result<&Described> {
        self.variables.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.variables.keys().map(String::as_str).collect();
            let known = plain(&known.join(", "));
            Error::Input(format!("variable {name:?} is not known; there are: {known}"))
        })
    }

    /// Extents of Fortran's order, or positions, in C's.
    pub fn reorder<T>(&self, extents: &mut [T]) {
        if self.fortran {
            extents.reverse();
        }
    }

    /// Where files go: as the stores of the variables say, or the first that says so where none has one.
    fn folder(&self, stores: &[(String, Option<PathBuf>)]) -> Result<Option<PathBuf>> {
        let mut used: Option<(&str, &Option<PathBuf>)> = None;
        for (variable, described) in &self.variables {
            let Some(name) = &described.store else { continue };
            let (store, path) = stores.iter().find(|one| one.0 == *name).ok_or_else(|| {
                Error::Input(format!("<variable name={variable:?}>: there is no store {name:?}"))
            })?;
            match used {
                Some((other, elsewhere)) if elsewhere != path => {
                    return Err(Error::Input(format!(
                        "<store name={store:?}>: has a FilesPath other than that of {other:?}; a job \
                         has one folder"
                    )));
                }
                _ => used = Some((store, path)),
            }
        }
        let any = || stores.iter().find_map(|one| one.1.clone());
        Ok(used.map_or_else(any, |(_, path)| path.clone()))
    }

    fn layout(&self, variable: &str) -> Result<&Layout> {
        let name = &self.variables[variable].layout;
        self.layouts.get(name).ok_or_else(|| {
            Error::Input(format!("<variable name={variable:?}>: there is no layout {name:?}"))
        })
    }

    /// What of a variable's extents can be told before the program has set its parameters.
    fn check_extents(&self, variable: &str) -> Result<()> {
        let layout = self.layout(variable)?;
        let ghosts = layout.ghosts.iter().flat_map(|(before, after)| [before, after]);
        for text in layout.dimensions.iter().chain(&layout.global).chain(ghosts) {
            check(text, &|name| self.parameters.contains_key(name)).map_err(|told| {
                Error::Input(format!("variable {variable:?}: extent {text:?} {told}"))
            })?;
        }
        Ok(())
    }

    fn extents(&self, variable: &str, expressions: &[String]) -> Result<Vec<u64>> {
        let mut found = Vec::new();
        for text in expressions {
            let value = evaluate(text, &|name| {
                self.parameters.get(name).map(|one| one.value.for_extents())
            });
            let extent = value.and_then(|value| {
                // As integers are divided, though parameters may be of any kind.
                let whole = value.trunc();
                (0.0..=EXTENT_MAX)
                    .contains(&whole)
                    .then_some(whole as u64)
                    .ok_or_else(|| format!("is {value}"))
            });
            found.push(extent.map_err(|told| {
                Error::Input(format!("variable {variable:?}: extent {text:?} {told}"))
            })?);
        }
        self.reorder(&mut found);
        Ok(found)
    }

    /// What stands within `<data>` or a group.
    fn group(
        &mut self,
        within: Node<'_, '_>,
        prefix: &str,
        depth: usize,
        inherited: &Inherited,
    ) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(Error::Input(format!(
                "<group>: groups are nested more than {DEPTH_MAX} deep"
            )));
        }
        for one in within.children().filter(Node::is_element) {
            match one.tag_name().name() {
                "parameter" => {
                    let (name, kind) = (named(one)?, kind(one)?);
                    let value = one.attribute("value");
                    new(
                        one,
                        &name,
                        self.parameters.contains_key(&name) || self.texts.contains_key(&name),
                    )?;
                    let Some(kind) = kind else {
                        self.texts.insert(name, value.unwrap_or_default().to_owned());
                        continue;
                    };
                    let text = value.unwrap_or("0").trim();
                    match Number::parse(kind, text) {
                        Ok(value) => {
                            self.parameters.insert(name, Parameter { kind, value });
                        }
                        // Of letters, as programs may have them; no extent depends on such a one.
                        Err(_) if kind == Type::Int8 && text.parse::<f64>().is_err() => {}
                        Err(told) => {
                            let value = value.unwrap_or_default();
                            return Err(Error::Input(format!(
                                "<parameter name={name:?} value={value:?}>: {told}"
                            )));
                        }
                    }
                }
                "layout" => {
                    let (name, kind) = (named(one)?, kind(one)?);
                    new(one, &name, self.layouts.contains_key(&name))?;
                    let list = |key: &str| {
                        let text = one.attribute(key).unwrap_or_default();
                        let parts = text.split(',').map(|part| part.trim().to_owned());
                        let parts: Vec<String> =
                            if text.trim().is_empty() { Vec::new() } else { parts.collect() };
                        if parts.iter().any(String::is_empty) {
                            return Err(Error::Input(format!(
                                "<layout name={name:?} {key}={text:?}>: nothing stands before or \
                                 after a comma"
                            )));
                        }
                        Ok(parts)
                    };
                    let (dimensions, global) = (list("dimensions")?, list("global")?);
                    if dimensions.is_empty()
                        || !(global.is_empty() || global.len() == dimensions.len())
                    {
                        return Err(Error::Input(format!(
                            "<layout name={name:?}>: needs dimensions, and as many in global if that \
                             is given"
                        )));
                    }
                    let ghosts = list("ghosts")?;
                    let ghosts = ghosts.iter().map(|one| one.split_once(':'));
                    let ghosts: Option<Vec<(String, String)>> = ghosts
                        .map(|pair| pair.map(|(one, other)| (one.to_owned(), other.to_owned())))
                        .collect();
                    let ghosts = ghosts.filter(|all| [0, dimensions.len()].contains(&all.len()));
                    let ghosts = ghosts.ok_or_else(|| {
                        Error::Input(format!(
                            "<layout name={name:?}>: ghosts are pairs \"before:after\", as many \
                             as dimensions"
                        ))
                    })?;
                    self.layouts.insert(name, Layout { kind, dimensions, global, ghosts });
                }
                "variable" => {
                    let name = format!("{prefix}{}", named(one)?);
                    new(one, &name, self.variables.contains_key(&name))?;
                    let layout = one.attribute("layout").ok_or_else(|| {
                        Error::Input(format!("<variable name={name:?}>: has no layout"))
                    })?;
                    let mut attributes = Attributes::new();
                    for (key, name) in [("unit", "units"), ("comment", "comment"), ("mesh", "mesh")]
                    {
                        if let Some(text) = one.attribute(key).filter(|text| !text.is_empty()) {
                            let value = Value::Text(text.to_owned());
                            set_attribute(&mut attributes, name, value)?;
                        }
                    }
                    let Inherited { enabled, store } = inherited.of(one);
                    let layout = layout.to_owned();
                    self.variables.insert(name, Described { layout, attributes, enabled, store });
                }
                "group" => {
                    let deeper = format!("{prefix}{}/", named(one)?);
                    self.group(one, &deeper, depth + 1, &inherited.of(one))?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What a group says for what stands in it.
struct Inherited {
    enabled: bool,
    store: Option<String>,
}

impl Inherited {
    /// With what an element says itself.
    fn of(&self, node: Node<'_, '_>) -> Self {
        let store = node.attribute("store").map(str::trim);
        // Both are what Damaris has for none.
        let store = store.map(|name| (!["", "#"].contains(&name)).then(|| name.to_owned()));
        Self {
            enabled: self.enabled && node.attribute("enabled") != Some("false"),
            store: store.unwrap_or_else(|| self.store.clone()),
        }
    }
}

/// Stores, and the folders that they name.
fn stores(storage: Option<Node<'_, '_>>) -> Result<Vec<(String, Option<PathBuf>)>> {
    let all = storage.into_iter().flat_map(|storage| storage.children());
    all.filter(|one| one.tag_name().name() == "store")
        .map(|store| {
            let path = store
                .children()
                .filter(|one| one.tag_name().name() == "option")
                .find(|one| one.attribute("key") == Some("FilesPath"));
            let path = path.and_then(|one| one.text()).map(str::trim);
            Ok((named(store)?, path.filter(|text| !text.is_empty()).map(PathBuf::from)))
        })
        .collect()
}

/// Text that a terminal may get.
fn plain(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

fn child<'a, 'b>(node: Node<'a, 'b>, name: &str) -> Option<Node<'a, 'b>> {
    node.children().find(|one| one.tag_name().name() == name)
}

fn named(node: Node<'_, '_>) -> Result<String> {
    let element = node.tag_name().name();
    let name = node.attribute("name").filter(|name| !name.is_empty());
    name.map(str::to_owned).ok_or_else(|| Error::Input(format!("<{element}>: has no name")))
}

/// Refuse what is there already: which of the two is meant, nobody knows.
fn new(node: Node<'_, '_>, name: &str, known: bool) -> Result<()> {
    let element = node.tag_name().name();
    if known {
        Err(Error::Input(format!("<{element} name={name:?}>: is defined twice")))
    } else {
        Ok(())
    }
}

fn number(node: Node<'_, '_>, key: &str) -> Result<Option<usize>> {
    let Some(text) = node.attribute(key) else { return Ok(None) };
    let element = node.tag_name().name();
    text.trim()
        .parse()
        .map(Some)
        .map_err(|_| Error::Input(format!("<{element} {key}={text:?}>: is not a whole number")))
}

/// The type of a layout or a parameter; `None` for text.
fn kind(node: Node<'_, '_>) -> Result<Option<Type>> {
    let (element, text) = (node.tag_name().name(), node.attribute("type").unwrap_or_default());
    Ok(Some(match text {
        "short" => Type::Int16,
        "int" | "integer" => Type::Int32,
        "long" => Type::Int64,
        "float" | "real" => Type::Float32,
        "double" => Type::Float64,
        "char" | "character" => Type::Int8,
        "string" | "label" => return Ok(None),
        _ => {
            return Err(Error::Input(format!(
                "<{element} type={text:?}>: allowed: short, int (integer), long, float (real), \
                 double, char (character), string (label)"
            )));
        }
    }))
}

#[cfg(test)]
mod tests;
