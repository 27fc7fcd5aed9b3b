//! Compression: each object by itself, with a dictionary trained on the objects of its resource.
//!
//! Objects of one resource share keys, managedFields and words, and repeat little within themselves. A zstd dictionary
//! contains the shared parts, so that one object can be read without any other. Compressing groups of objects was not
//! chosen, because every read of one object would decompress a group. Small stores are not compressed. This file
//! compresses bytes; `object` decides which form an object has.

use std::cell::RefCell;

use zstd_safe::{CCtx, CDict, CompressionLevel, DCtx, DDict, DParameter, FrameFormat};

use super::decompression_cache::DecompressionCache;

/// zstd level: of those whose ratio is within some per cent of level 3, the one that costs least.
const LEVEL: CompressionLevel = 2;

/// Size of a dictionary, in bytes: a larger one improves the ratio by less than one per cent.
const DICTIONARY_BYTES: usize = 64 << 10;

/// The maximum size of a sample to train a dictionary on, in bytes: training takes some 50 ms for each MiB, once.
pub(super) const SAMPLE_BYTES: usize = 2 << 20;

/// The minimum size of a sample, in bytes. A store of few objects may pack many bytes because they change often; a
/// dictionary would not pay there.
const LEAST_SAMPLE: usize = 512 << 10;

/// The frames begin with this constant.
const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// Where a dictionary's number is in its bytes. It is set to zero, "none", so that it is not repeated in each object.
const NUMBER: std::ops::Range<usize> = 4..8;

thread_local! {
    // A context is some hundred KiB of working memory. It keeps no data from one object to the next.
    static COMPRESSION: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESSION: RefCell<DCtx<'static>> = RefCell::new(decompression());
}

/// A decompressor for frames without the magic number.
fn decompression() -> DCtx<'static> {
    let mut context = DCtx::create();
    context.set_parameter(DParameter::Format(FrameFormat::Magicless)).expect("zstd must accept its own frame formats");
    context
}

/// The data for reading objects; shared by all objects that were written with it.
pub(super) struct Dictionary {
    decoder: DDict<'static>,
    /// Objects that are read often, decompressed.
    hot: DecompressionCache,
}

/// The data for writing objects; the store owns it.
pub(super) struct Compressor {
    encoder: CDict<'static>,
    buffer: Vec<u8>,
}

impl Dictionary {
    /// Appends the original bytes of an object. `plain_length` is their exact number.
    pub(super) fn decompress(&self, compressed: &[u8], plain_length: usize, out: &mut Vec<u8>) {
        self.hot.write(compressed, out, |out| {
            let start = out.len();
            out.resize(start + plain_length, 0);
            let written = DECOMPRESSION.with_borrow_mut(|context| {
                context.decompress_using_ddict(&mut out[start..], compressed, &self.decoder)
            });
            assert_eq!(written, Ok(plain_length), "what a store compressed must decompress to what it was");
        });
    }

    /// Memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.decoder.sizeof() + self.hot.held_bytes()
    }
}

/// Objects to train a dictionary on.
pub(super) struct Sample {
    /// The JSON of all objects, without separators.
    bytes: Vec<u8>,
    /// The length of each object, in bytes.
    sizes: Vec<usize>,
}

/// Collects a sample from the JSON of objects; `None` if the objects are too few or too small.
pub(super) fn sample(objects: impl Iterator<Item = Vec<u8>>) -> Option<Sample> {
    let (mut samples, mut sizes) = (Vec::new(), Vec::new());
    for object in objects {
        // An object that does not fit is skipped: a sample needs several objects.
        if samples.len() + object.len() <= SAMPLE_BYTES {
            samples.extend_from_slice(&object);
            sizes.push(object.len());
        }
        // The sample is nearly full: of the remaining objects, most would be read in vain.
        if samples.len() > SAMPLE_BYTES * 15 / 16 {
            break;
        }
    }
    (samples.len() >= LEAST_SAMPLE).then_some(Sample { bytes: samples, sizes })
}

/// Trains a dictionary; `None` if the objects have too little in common.
pub(super) fn train(sample: &Sample) -> Option<(Dictionary, Compressor)> {
    let mut text = vec![0; DICTIONARY_BYTES];
    let length = zstd_safe::train_from_buffer(&mut text[..], &sample.bytes, &sample.sizes).ok()?;
    text.truncate(length);
    text.get_mut(NUMBER)?.fill(0);
    let dictionary = Dictionary {
        decoder: DDict::create(&text),
        hot: DecompressionCache::new(sample.bytes.len() / sample.sizes.len().max(1)),
    };
    Some((dictionary, Compressor { encoder: CDict::create(&text, LEVEL), buffer: Vec::new() }))
}

impl Compressor {
    /// The compressed bytes; `None` if they are not shorter than `plain`.
    pub(super) fn compress(&mut self, plain: &[u8]) -> Option<&[u8]> {
        self.buffer.resize(zstd_safe::compress_bound(plain.len()), 0);
        let Compressor { encoder, buffer } = self;
        let length = COMPRESSION
            .with_borrow_mut(|context| context.compress_using_cdict(&mut buffer[..], plain, encoder))
            .ok()?;
        let compressed = buffer[..length].strip_prefix(&MAGIC)?;
        (compressed.len() < plain.len()).then_some(compressed)
    }

    /// Memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.encoder.sizeof() + self.buffer.capacity()
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Dictionary").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Compressor").finish_non_exhaustive()
    }
}
