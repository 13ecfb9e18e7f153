"""Numbers in sentences."""

from __future__ import annotations

from wattio.files.plain import plain


def test_large_numbers_have_no_power_of_ten() -> None:
    """A deviation of all of the mean was told as ±1e+02%, an hour as 3.6e+03 s."""
    told = [plain(99.7, 2), plain(114, 2), plain(3600), plain(12_345.6), plain(999.7)]
    assert told == ["100", "114", "3,600", "12,346", "1,000"]


def test_numbers_are_rounded_to_their_first_digits() -> None:
    told = [plain(41.23, 2), plain(43.81), plain(0.012345), plain(0)]
    assert told == ["41", "43.8", "0.0123", "0"]
    assert [plain(-1364.2), plain(2e300), plain(float("inf"))] == ["-1,364", "2e+300", "inf"]


def test_small_numbers_have_no_power_of_ten_either() -> None:
    """Tables had `1.33e-04` s of a parameter."""
    told = [plain(1.33e-4), plain(1.334e-5), plain(9.9999e-5), plain(-2e-6, 4), plain(1e-12)]
    assert told == ["0.000133", "0.0000133", "0.0001", "-0.000002", "1e-12"]
