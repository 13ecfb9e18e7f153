//! Bytes of a file, uncompressed on the way, with a count of what was read for progress.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const BUFFER_BYTES: usize = 64 * 1024;
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const XZ_MAGIC: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Memory an xz stream may ask for; the largest preset needs 65 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 256 * 1024;

/// Counts the bytes that pass.
pub(crate) struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R> Counted<R> {
    pub fn new(inner: R, read: Arc<AtomicU64>) -> Self {
        Self { inner, read }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The uncompressed content; the compression is found by its magic number, not by the file's name.
pub(crate) fn uncompressed(source: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    // A reader may give single bytes; the magic number must be whole before it is compared.
    let mut head = Vec::with_capacity(XZ_MAGIC.len());
    let mut source = source;
    source.by_ref().take(XZ_MAGIC.len() as u64).read_to_end(&mut head)?;
    let is = |magic: &[u8]| head.starts_with(magic);
    let (gzip, xz, zstd) = (is(GZIP_MAGIC), is(XZ_MAGIC), is(ZSTD_MAGIC));
    let whole = io::Cursor::new(head).chain(source);
    if !(gzip || xz || zstd) {
        return Ok(Box::new(whole));
    }
    let whole = BufReader::with_capacity(BUFFER_BYTES, whole);
    Ok(if gzip {
        Box::new(Named { name: "gzip", inner: MultiGzDecoder::new(whole) })
    } else if xz {
        let inner = XzReader::new_mem_limit(whole, true, XZ_MEMORY_KIB_MAX);
        Box::new(Named { name: "xz", inner })
    } else {
        Box::new(Named { name: "zstd", inner: ZstdFrames::new(whole) })
    })
}

/// Says which compression failed; the libraries' own messages often do not.
struct Named<R> {
    name: &'static str,
    inner: R,
}

impl<R: Read> Read for Named<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|error| {
            let what = match error.kind() {
                io::ErrorKind::UnexpectedEof => "stream is cut",
                _ => "stream is damaged or cut",
            };
            io::Error::new(error.kind(), format!("the {} {what}: {error}", self.name))
        })
    }
}

/// All frames of a zstd file, one after the other; the library knows one at a time.
struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), within: false }
    }

    /// Open the next frame; false at the end of the file.
    fn open(&mut self) -> io::Result<bool> {
        while !self.within {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.init(&mut self.source) {
                Ok(()) => self.within = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let wanted = u64::from(length);
                    let skipped = &mut self.source.by_ref().take(wanted);
                    if io::copy(skipped, &mut io::sink())? < wanted {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(true)
    }

    fn close(&mut self) -> io::Result<()> {
        self.within = false;
        // The library computes the checksum but leaves the comparison to its user.
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(found)) if stored != found => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum of a frame differs"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.open()? {
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
            let count = self.decoder.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            self.close()?;
        }
        Ok(0)
    }
}
