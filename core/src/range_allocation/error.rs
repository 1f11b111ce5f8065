//! Errors about stored values.

/// Why a stored value cannot be decoded.
///
/// Offsets count bytes from the start of the value and are at most its length. Text found in the
/// value is quoted up to 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The value has no bytes.
    #[error("the stored value is empty")]
    Empty {
        /// Always 0.
        offset: usize,
    },
    /// The value is neither Kubernetes' protobuf nor an object in JSON or YAML.
    #[error("the stored value is not a RangeAllocation: it begins with \"{found}\"")]
    NotARangeAllocation {
        /// Always 0.
        offset: usize,
        /// The first bytes (at most 8), escaped to ASCII.
        found: String,
    },
    /// The value is encrypted at rest by the API server.
    #[error("the stored value is encrypted at rest by provider {provider:?}")]
    Encrypted {
        /// Always 0.
        offset: usize,
        /// The provider that the value names, such as `aescbc` or `kms`.
        provider: String,
    },
    /// A message ends inside a field, or the value ends before the object.
    #[error("the value is cut off at byte {offset}")]
    Truncated {
        /// Where the next byte was expected.
        offset: usize,
    },
    /// A variable-length number does not fit 64 bits.
    #[error("the number at byte {offset} is longer than 64 bits")]
    VarintTooLong {
        /// Start of the number.
        offset: usize,
    },
    /// A field number that protobuf does not allow.
    #[error("{message} has a field with the illegal number {field} at byte {offset}")]
    FieldNumber {
        /// Start of the field.
        offset: usize,
        /// The message that holds the field.
        message: &'static str,
        /// The number, outside 1 to 2^29 - 1.
        field: u64,
    },
    /// A field has a wire type that it cannot have. Groups (3 and 4) are not supported.
    #[error("field {field} of {message} at byte {offset} has wire type {wire_type}")]
    WireType {
        /// Start of the field.
        offset: usize,
        /// The message that holds the field.
        message: &'static str,
        /// The field's number.
        field: u32,
        /// The wire type found.
        wire_type: u8,
    },
    /// A field claims more bytes than the message around it has left.
    #[error("the field at byte {offset} claims {length} bytes, but {available} are left")]
    LengthPastEnd {
        /// Start of the field's length.
        offset: usize,
        /// The bytes claimed.
        length: u64,
        /// The bytes left.
        available: usize,
    },
    /// The object is of another kind, or has none.
    #[error("the object at byte {offset} is of kind {found:?}, not \"RangeAllocation\"")]
    WrongKind {
        /// Start of the kind, or of the object if it has none.
        offset: usize,
        /// The kind found; empty if there is none.
        found: String,
    },
    /// The object has an unsupported apiVersion, or none.
    #[error("the object at byte {offset} has the unsupported apiVersion {found:?}")]
    WrongApiVersion {
        /// Start of the apiVersion, or of the object if it has none.
        offset: usize,
        /// The apiVersion found; empty if there is none.
        found: String,
    },
    /// The object inside the Unknown message has a content encoding, such as a compression.
    #[error("the content encoding {found:?} at byte {offset} is not supported")]
    ContentEncoding {
        /// Start of the encoding's name.
        offset: usize,
        /// The name.
        found: String,
    },
    /// The value is not JSON.
    #[error("JSON syntax at byte {offset}: {reason}")]
    JsonSyntax {
        /// The byte that does not fit, or the length if the text ends too early.
        offset: usize,
        /// The parser's message.
        reason: String,
    },
    /// The value is text that is not YAML of the form that a kube-apiserver writes.
    #[error("YAML at byte {offset}, in line {line}: {reason}")]
    Yaml {
        /// The byte that does not fit.
        offset: usize,
        /// Its line, from 1 on.
        line: usize,
        /// The parser's message, or what is not supported.
        reason: String,
    },
    /// A field of JSON or YAML does not hold a string.
    #[error("{field} at byte {offset} is {found}, not a string")]
    NotAString {
        /// Start of the field's value.
        offset: usize,
        /// The field.
        field: &'static str,
        /// The type of the value, such as `a number`.
        found: &'static str,
    },
    /// `data` of JSON or YAML is not standard base64 with padding.
    #[error("data is not base64 at byte {offset}")]
    Base64 {
        /// The symbol that does not fit. Where `data` is written with escapes: its start.
        offset: usize,
    },
    /// The range, or the text of JSON, is not UTF-8.
    #[error("the text is not UTF-8 at byte {offset}")]
    InvalidUtf8 {
        /// The first byte that is not UTF-8.
        offset: usize,
    },
}

impl DecodeError {
    /// The place of the error: a byte offset in the stored value, at most its length.
    pub fn offset(&self) -> usize {
        match *self {
            DecodeError::Empty { offset }
            | DecodeError::NotARangeAllocation { offset, .. }
            | DecodeError::Encrypted { offset, .. }
            | DecodeError::Truncated { offset }
            | DecodeError::VarintTooLong { offset }
            | DecodeError::FieldNumber { offset, .. }
            | DecodeError::WireType { offset, .. }
            | DecodeError::LengthPastEnd { offset, .. }
            | DecodeError::WrongKind { offset, .. }
            | DecodeError::WrongApiVersion { offset, .. }
            | DecodeError::ContentEncoding { offset, .. }
            | DecodeError::JsonSyntax { offset, .. }
            | DecodeError::Yaml { offset, .. }
            | DecodeError::NotAString { offset, .. }
            | DecodeError::Base64 { offset }
            | DecodeError::InvalidUtf8 { offset } => offset,
        }
    }
}

/// The beginning of a text of the value, so that a message stays short whatever the value's size.
pub(super) fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(64)]).into_owned()
}
