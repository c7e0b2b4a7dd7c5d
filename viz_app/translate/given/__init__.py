"""A given translation: as likely as a reference, or as a sentence that translates another one."""
