//! What a runner is to do: buffers and launches, and the file that says so (`shim/runner.cpp` has its layout).

/// A buffer of a job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Buffer(u32);

/// Buffers, and kernels that run over them one after the other.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Job {
    buffers: Vec<(Vec<u8>, bool)>,
    launches: Vec<Launch>,
}

impl Job {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What kernels read.
    pub fn input(&mut self, bytes: impl Into<Vec<u8>>) -> Buffer {
        self.add(bytes.into(), false)
    }

    /// What kernels change; the result has it.
    pub fn changed(&mut self, bytes: impl Into<Vec<u8>>) -> Buffer {
        self.add(bytes.into(), true)
    }

    /// What kernels write and later ones may read, of no interest afterwards. It begins as NaN.
    pub fn scratch(&mut self, bytes: usize) -> Buffer {
        self.add(vec![0xFF; bytes], false)
    }

    /// What kernels write; the result has it. It begins as NaN.
    pub fn output(&mut self, bytes: usize) -> Buffer {
        self.add(vec![0xFF; bytes], true)
    }

    /// Adds a kernel.
    pub fn launch(&mut self, launch: Launch) {
        self.launches.push(launch);
    }

    /// The same without the later kernels, and with what the first one writes as the result.
    pub fn first_launch_alone(mut self) -> Self {
        self.launches.truncate(1);
        for (bytes, wanted) in &mut self.buffers {
            *wanted = !bytes.is_empty() && bytes.iter().all(|byte| *byte == 0xFF);
        }
        self
    }

    /// The place among the results of a buffer that the result has.
    pub fn place(&self, buffer: Buffer) -> usize {
        self.buffers[..buffer.0 as usize].iter().filter(|(_, wanted)| *wanted).count()
    }

    /// Bytes of the buffers that the result has.
    pub(crate) fn wanted(&self) -> Vec<usize> {
        self.buffers.iter().filter(|(_, wanted)| *wanted).map(|(bytes, _)| bytes.len()).collect()
    }

    /// The file, for these orders of threads.
    pub(crate) fn bytes(&self, orders: &[u32]) -> Vec<u8> {
        let mut to = Vec::new();
        put(&mut to, self.buffers.len());
        for (bytes, wanted) in &self.buffers {
            to.extend((bytes.len() as u64).to_le_bytes());
            to.extend(bytes);
            put(&mut to, usize::from(*wanted));
        }
        put(&mut to, self.launches.len());
        for launch in &self.launches {
            launch.put(&mut to);
        }
        put(&mut to, orders.len());
        for order in orders {
            to.extend(order.to_le_bytes());
        }
        to
    }

    fn add(&mut self, bytes: Vec<u8>, wanted: bool) -> Buffer {
        self.buffers.push((bytes, wanted));
        Buffer(u32::try_from(self.buffers.len() - 1).expect("a handful of buffers"))
    }
}

/// One kernel with its grid and argument.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel's name.
    pub kernel: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// The structure that the kernel takes.
    pub argument: Argument,
}

impl Launch {
    fn put(&self, to: &mut Vec<u8>) {
        put_bytes(to, self.kernel.as_bytes());
        for blocks in self.grid {
            to.extend(blocks.to_le_bytes());
        }
        to.extend(self.threads.to_le_bytes());
        to.extend(self.dynamic_shared.to_le_bytes());
        put_bytes(to, &self.argument.padded());
        put(to, self.argument.addresses.len());
        for (place, buffer, offset) in &self.argument.addresses {
            put(to, *place);
            to.extend(buffer.0.to_le_bytes());
            to.extend(offset.to_le_bytes());
        }
    }
}

/// A structure as C++ lays it out, member by member.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Argument {
    bytes: Vec<u8>,
    addresses: Vec<(usize, Buffer, u64)>,
}

impl Argument {
    /// No members yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A pointer to a buffer.
    pub fn address(self, buffer: Buffer) -> Self {
        self.address_at(buffer, 0)
    }

    /// A pointer into a buffer.
    pub fn address_at(mut self, buffer: Buffer, offset: u64) -> Self {
        self = self.member(&[0; 8]);
        self.addresses.push((self.bytes.len() - 8, buffer, offset));
        self
    }

    /// A null pointer.
    pub fn null(self) -> Self {
        self.member(&[0; 8])
    }

    /// A count.
    pub fn count(self, value: usize) -> Self {
        let value = i32::try_from(value).expect("counts of kernels are 32-bit");
        self.member(&value.to_le_bytes())
    }

    /// A number.
    pub fn float(self, value: f32) -> Self {
        self.member(&value.to_le_bytes())
    }

    /// Any 32 bits.
    pub fn word(self, value: u32) -> Self {
        self.member(&value.to_le_bytes())
    }

    /// A 64-bit count.
    pub fn long(self, value: u64) -> Self {
        self.member(&value.to_le_bytes())
    }

    fn member(mut self, bytes: &[u8]) -> Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(bytes.len()), 0);
        self.bytes.extend(bytes);
        self
    }

    /// A structure with a pointer is a multiple of 8 bytes.
    fn padded(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }
}

fn put(to: &mut Vec<u8>, value: usize) {
    to.extend(u32::try_from(value).expect("a small count").to_le_bytes());
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put(to, bytes.len());
    to.extend(bytes);
}
