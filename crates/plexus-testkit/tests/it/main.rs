mod bench;
