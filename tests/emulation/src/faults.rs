//! Faults that are planted into copies of the kernels' text. A checker that does not find them would find nothing.

/// What a program watches for, beside the rules of barriers and exchanges.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Watch {
    /// Nothing more; it is fast.
    Nothing,
    /// Memory that a kernel does not own, and undefined arithmetic.
    Memory,
    /// Accesses of two threads that nothing orders.
    Races,
}

impl Watch {
    /// The name of the program that runs all kernels so.
    pub fn program(self) -> &'static str {
        match self {
            Self::Nothing => "plain",
            Self::Memory => "memory",
            Self::Races => "races",
        }
    }
}

/// One change of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The program that has it.
    pub name: &'static str,
    /// Whose text is changed.
    pub kernel: &'static str,
    /// What stands there once.
    pub text: &'static str,
    /// What stands there instead.
    pub becomes: &'static str,
    /// How the program is built.
    pub watch: Watch,
}

/// A barrier left out of the joining of warps: results then depend on the order of threads.
pub const MISSING_BARRIER: Fault = Fault {
    name: "fault-missing-barrier",
    kernel: "gqa",
    text: "                row[COLUMNS + 1] = total[half];\n            }\n            __syncthreads();",
    becomes: "                row[COLUMNS + 1] = total[half];\n            }\n",
    watch: Watch::Nothing,
};

/// The same, watched for races.
pub const RACE: Fault = Fault { name: "fault-race", watch: Watch::Races, ..MISSING_BARRIER };

/// A barrier that only some threads come to.
pub const DIVERGENT_BARRIER: Fault = Fault {
    name: "fault-divergent-barrier",
    kernel: "gqa",
    text: "shared.query);\n        __syncthreads();",
    becomes: "shared.query);\n        if (lane != 3) __syncthreads();",
    watch: Watch::Nothing,
};

/// An exchange that only some lanes come to.
pub const DIVERGENT_EXCHANGE: Fault = Fault {
    name: "fault-divergent-exchange",
    kernel: "delta",
    text: "        r = sum_of_lanes<ROW_LANES>(r);",
    becomes: "        if (row % 3 != 1) r = sum_of_lanes<ROW_LANES>(r);",
    watch: Watch::Nothing,
};

/// A state that is written one row too far.
pub const OUT_OF_BOUNDS: Fault = Fault {
    name: "fault-out-of-bounds",
    kernel: "delta",
    text: "        if (row >= a.v_dim) continue;",
    becomes: "        if (row > a.v_dim) continue;",
    watch: Watch::Memory,
};

/// Shared memory that is written one place too far.
pub const OUT_OF_SHARED: Fault = Fault {
    name: "fault-out-of-shared",
    kernel: "top_k",
    text: "for (int i = threadIdx.x; i < DIGITS; i += TOP_K_THREADS) shared.histogram[i] = 0;",
    becomes: "for (int i = threadIdx.x; i < DIGITS + 68; i += TOP_K_THREADS) shared.histogram[i] = 0;",
    watch: Watch::Memory,
};

/// Copies that may still be under way when their data is used.
pub const MISSING_WAIT: Fault = Fault {
    name: "fault-missing-wait",
    kernel: "shared_rows",
    text: "            wait_copies<0>();",
    becomes: "            wait_copies<1>();",
    watch: Watch::Nothing,
};

/// Every fault.
pub const FAULTS: &[Fault] = &[
    MISSING_BARRIER,
    RACE,
    DIVERGENT_BARRIER,
    DIVERGENT_EXCHANGE,
    OUT_OF_BOUNDS,
    OUT_OF_SHARED,
    MISSING_WAIT,
];
