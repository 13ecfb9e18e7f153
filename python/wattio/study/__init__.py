"""Studies: study file -> plan -> run -> result folder."""
