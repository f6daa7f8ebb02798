"""E-mail: SMTP to send, IMAP to receive."""
