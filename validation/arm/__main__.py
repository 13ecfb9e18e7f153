"""Compute again what Erxleben et al. and the thesis publish of their clusters.

    python -m validation.arm [--out FOLDER] [--json]

Peaks, shares of them, capacity per watt and net idle power follow from what the same documents
give; what was measured is an input. With `--out`, writes `arm-cluster.html` and a CSV file. Ends
with 1 where a number differs without a reason, with 2 where nothing can be written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from validation.arm import paper, paper_setup, thesis, thesis_setup, thesis_systems, thesis_work
from validation.common import numbers, printed
from validation.common.numbers import About, Document
from validation.common.printed import Checked

PUBLISHED = Path(__file__).with_name("published.toml")
PAPER = Document(
    paper.PAPER,
    "Erxleben et al., ENERGY 2022",
    {
        "introduction": "Machines in general (section I)",
        "benchmark": "Benchmark (section III)",
        "reference_setup": "Reference cluster (section IV a)",
        "arm_setup": "ARM cluster (section IV b)",
        "arm_cluster": "ARM cluster: power, capacity, peak (section IV, Table I)",
        "reference_cluster": "Reference cluster: power, capacity, peak (section IV)",
        "reference_peak": "Parts of the reference cluster's peak (Table I)",
        "headline": "Results in words (abstract, sections V and VI)",
        "discussion": "Costs, a trial, settings (section V)",
        "max_throughput": "Highest throughput (Table II)",
    },
)
THESIS = Document(
    thesis.THESIS,
    "Erxleben, bachelor thesis, 2022",
    {
        "introduction": "How many drives fill a network (chapter 1)",
        "interfaces": "Interfaces (section 2.1)",
        "raid": "RAID (section 2.1)",
        "gluster": "GlusterFS (section 3.3)",
        "moosefs": "MooseFS (section 3.4)",
        "hardware": "Machines (section 4.1)",
        "throughput_tpp": "Peak of throughput (Table 4.1, section 4.3)",
        "metadata_tpp": "Peak of metadata (Table 4.2, section 4.3)",
        "tpp_used": "The peak that is used (section 4.3)",
        "messages": "Messages (section 4.3)",
        "power": "Idle power (section 4.1)",
        "trials": "Trials (chapter 5)",
        "ceph": "CephFS as it was set up (section 5.1)",
        "orangefs": "OrangeFS as it was set up (section 5.2)",
        "gluster_setup": "GlusterFS as it was set up (section 5.3)",
        "moosefs_setup": "MooseFS as it was set up (sections 5.4 and 5.7)",
        "workloads": "Workloads (section 6.1)",
        "source": "The source tree that was compiled (section 6.1)",
        "collection": "How data were collected (section 6.2)",
        "example": "An example, and metrics (section 6.3)",
        "results": "Results in words (sections 6.4 and 6.5)",
        "design": "Recommendations (section 6.6)",
        "related": "Related work (chapter 7)",
        "fio": "Parameters of fio (figures A.1 to A.4)",
        "mdtest": "Parameters of mdtest (figure A.5)",
        "ior": "Parameters of IOR (figure A.6)",
        "script": "Script of the compilation (figure A.7)",
    },
)
ABOUT = About(
    "arm-cluster",
    "File systems on an ARM cluster: published against ours",
    "the paper and the thesis",
    (PAPER, THESIS),
)


def rows() -> list[Checked]:
    """Every number of both documents, checked."""
    values = printed.read(PUBLISHED)
    found = [
        entry
        for part in (paper, paper_setup, thesis, thesis_setup, thesis_systems, thesis_work)
        for entry in part.entries(values)
    ]
    return printed.check(found, values)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    return numbers.main("validation.arm", ABOUT, rows(), arguments)


if __name__ == "__main__":
    sys.exit(main())
