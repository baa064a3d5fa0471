"""Everything that writes files of this repository which nobody writes by hand. Not part of the wheel."""
