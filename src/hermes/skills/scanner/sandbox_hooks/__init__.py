"""Programs that observe a foreign script during its trial: read as files, never imported here."""
