//! Writes small GGUF files, version 3, little endian: metadata alone, as the specification lays it out.

#![allow(dead_code, reason = "each test writes the kinds of values that it needs")]

#[derive(Clone, Debug)]
pub(crate) enum Value {
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Text(String),
    U32s(Vec<u32>),
    Bools(Vec<bool>),
    Texts(Vec<String>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct GgufFile {
    pub(crate) keys: Vec<(String, Value)>,
}

impl GgufFile {
    pub(crate) fn new(architecture: &str) -> Self {
        Self::default().with("general.architecture", Value::Text(architecture.to_owned()))
    }

    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.keys.push((key.to_owned(), value));
        self
    }

    pub(crate) fn set(&mut self, key: &str, value: Value) {
        self.keys.retain(|(known, _)| known != key);
        self.keys.push((key.to_owned(), value));
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
        bytes.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            text(&mut bytes, key);
            value.write(&mut bytes);
        }
        bytes
    }
}

impl Value {
    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::U32(value) => tagged(bytes, 4, &value.to_le_bytes()),
            Self::I32(value) => tagged(bytes, 5, &value.to_le_bytes()),
            Self::F32(value) => tagged(bytes, 6, &value.to_le_bytes()),
            Self::Bool(value) => tagged(bytes, 7, &[u8::from(*value)]),
            Self::Text(value) => {
                tagged(bytes, 8, &[]);
                text(bytes, value);
            }
            Self::U32s(values) => {
                list(bytes, 4, values.len());
                bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
            Self::Bools(values) => {
                list(bytes, 7, values.len());
                bytes.extend(values.iter().map(|value| u8::from(*value)));
            }
            Self::Texts(values) => {
                list(bytes, 8, values.len());
                for value in values {
                    text(bytes, value);
                }
            }
        }
    }
}

fn tagged(bytes: &mut Vec<u8>, kind: u32, value: &[u8]) {
    bytes.extend(kind.to_le_bytes());
    bytes.extend(value);
}

fn list(bytes: &mut Vec<u8>, kind: u32, length: usize) {
    tagged(bytes, 9, &kind.to_le_bytes());
    bytes.extend((length as u64).to_le_bytes());
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}
